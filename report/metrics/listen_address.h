// The value of --listen.
#pragma once

#include <string>

namespace culprit::report {

struct ListenAddress {
  std::string host;  // "127.0.0.1", "[::1]"
  unsigned port = 0;

  std::string text() const { return host + ":" + std::to_string(port); }
  bool is_loopback() const;
};

// "9400" (on 127.0.0.1), "127.0.0.1:9400", "localhost:9400" or "[::1]:9400"; port 0: a free one. Names of hosts are not
// looked up. False: `text` is none.
bool parse_listen_address(const std::string& text, ListenAddress* address);

}  // namespace culprit::report
