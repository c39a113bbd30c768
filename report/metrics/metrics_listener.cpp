#include "report/metrics/metrics_listener.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string_view>

#include "civetweb.h"
#include "report/base/printable.h"

namespace culprit::report {
namespace {

using std::chrono::steady_clock;

// Less than the 10 seconds after which Prometheus gives up.
constexpr std::chrono::seconds kLongestMaking{8};
// CivetWeb ends a request that makes no progress for 2 seconds. A client that reads a little again and again is ended
// after this time.
constexpr std::chrono::seconds kLongestAnswer{5};

constexpr char kThreads[] = "32";
constexpr char kWaiting[] = "64";  // connections; beyond them the kernel's list of 128
constexpr char kBacklog[] = "128";
constexpr char kRequestBytes[] = "8192";
constexpr char kRequestMilliseconds[] = "2000";

bool write_all(mg_connection* connection, std::string_view text) {
  constexpr std::size_t kPart = 16384;
  const steady_clock::time_point end = steady_clock::now() + kLongestAnswer;
  while (!text.empty()) {
    const std::size_t size = std::min(text.size(), kPart);
    const int written = mg_write(connection, text.data(), size);
    if (written <= 0 || steady_clock::now() > end) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// `with_body`: false for HEAD.
int answer(mg_connection* connection, int code, const char* words, const char* type, const std::string& body,
           bool with_body = true) {
  const std::string head = "HTTP/1.1 " + std::to_string(code) + " " + words + "\r\nContent-Type: " + type +
                           "\r\nContent-Length: " + std::to_string(body.size()) +
                           "\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n";
  if (write_all(connection, head) && with_body) write_all(connection, body);
  return code;
}

int answer_request(mg_connection* connection) {
  constexpr char kText[] = "text/plain; charset=utf-8";
  const mg_request_info* const request = mg_get_request_info(connection);
  const std::string_view method = request->request_method == nullptr ? "" : request->request_method;
  const std::string_view path = request->local_uri == nullptr ? "" : request->local_uri;
  if (method != "GET" || path != "/metrics")
    return answer(connection, 404, "Not Found", kText, "GET /metrics\n", method != "HEAD");
  const auto text = static_cast<FreshText*>(request->user_data)->get(kLongestMaking);
  if (text == nullptr)
    return answer(connection, 503, "Service Unavailable", kText, "reading the dumps takes too long\n");
  const char* const accept = mg_get_header(connection, "Accept");
  const bool open = accept != nullptr && accepts_openmetrics(accept);
  return answer(connection, 200, "OK", open ? kOpenMetricsType : kPrometheusType,
                open ? text->openmetrics : text->prometheus);
}

// CivetWeb is C: no exception may pass through it. Every request ends here, before CivetWeb looks for files or
// handlers.
int begin_request(mg_connection* connection) noexcept {
  try {
    mg_disable_connection_keep_alive(connection);  // so that no body is read
    return answer_request(connection);
  } catch (...) {
    return 503;  // no memory: the connection is closed
  }
}

// CivetWeb's messages about single clients would fill a log.
int take_message(const mg_connection*, const char*) noexcept { return 1; }

}  // namespace

MetricsListener::MetricsListener(const ListenAddress& address, FreshText* text) : address_(address) {
  mg_init_library(0);
  const std::string ports = address.text();
  const char* options[] = {"listening_ports",
                           ports.c_str(),
                           "num_threads",
                           kThreads,
                           "connection_queue",
                           kWaiting,
                           "listen_backlog",
                           kBacklog,
                           "max_request_size",
                           kRequestBytes,
                           "request_timeout_ms",
                           kRequestMilliseconds,
                           "enable_keep_alive",
                           "no",
                           "decode_url",
                           "no",
                           "tcp_nodelay",
                           "1",
                           nullptr};
  mg_callbacks callbacks = {};
  callbacks.begin_request = begin_request;
  callbacks.log_message = take_message;
  mg_init_data start = {&callbacks, text, options};
  char words[256] = "";
  mg_error_data problem = {};
  problem.text = words;
  problem.text_buffer_size = sizeof(words);
  server_ = mg_start2(&start, &problem);
  mg_server_port port = {};
  if (server_ == nullptr || mg_get_server_ports(server_, 1, &port) != 1) {
    if (server_ != nullptr) mg_stop(server_);
    mg_exit_library();
    throw std::runtime_error("cannot listen on " + ports + ": " + printable(words));
  }
  address_.port = static_cast<unsigned>(port.port);
}

MetricsListener::~MetricsListener() {
  mg_stop(server_);
  mg_exit_library();
}

}  // namespace culprit::report
