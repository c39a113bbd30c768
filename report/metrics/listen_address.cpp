#include "report/metrics/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace culprit::report {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

bool parse_port(const std::string& text, unsigned* port) {
  if (text.empty() || text.size() > 5 || text.find_first_not_of("0123456789") != std::string::npos) return false;
  *port = static_cast<unsigned>(std::stoul(text));
  return *port <= 65535;
}

bool is_host(const std::string& host) {
  in_addr address = {};
  in6_addr address6 = {};
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    return ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &address6) == 1;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

}  // namespace

bool ListenAddress::is_loopback() const { return host == "[::1]" || host.compare(0, 4, "127.") == 0; }

bool parse_listen_address(const std::string& text, ListenAddress* address) {
  const std::size_t colon = text.rfind(':');
  address->host = colon == std::string::npos ? kLoopback : text.substr(0, colon);
  if (address->host == "localhost") address->host = kLoopback;
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  return is_host(address->host) && parse_port(port, &address->port);
}

}  // namespace culprit::report
