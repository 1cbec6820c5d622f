#ifndef FARANDOLE_SERVER_TESTING_HTTP_GET_H_
#define FARANDOLE_SERVER_TESTING_HTTP_GET_H_

#include <string>
#include <utility>

#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http.hpp"

namespace farandole {

using HttpResponse = boost::beast::http::response<boost::beast::http::string_body>;

// The reply of the HTTP edge at HOST:PORT to a request, which gets its Host. Throws where there is none.
template <typename Body>
HttpResponse HttpExchange(const std::string& address, boost::beast::http::request<Body> request) {
  namespace http = boost::beast::http;
  const size_t colon = address.rfind(':');
  boost::asio::io_context io;
  boost::asio::ip::tcp::socket socket(io);
  boost::asio::connect(socket,
                       boost::asio::ip::tcp::resolver(io).resolve(address.substr(0, colon), address.substr(colon + 1)));
  request.set(http::field::host, address);
  http::write(socket, request);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  http::read_header(socket, buffer, parser);
  // A stream of events has no end.
  if (parser.get()[http::field::content_type] != "text/event-stream") http::read(socket, buffer, parser);
  return parser.release();
}

// The reply to a request without a body; "" for no token.
inline HttpResponse HttpAsk(const std::string& method, const std::string& address, const std::string& target,
                            const std::string& token, const std::string& cookie = "") {
  namespace http = boost::beast::http;
  http::request<http::empty_body> request(http::string_to_verb(method), target, 11);
  if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
  if (!cookie.empty()) request.set(http::field::cookie, cookie);
  return HttpExchange(address, std::move(request));
}

// The reply to a POST of a form without a token.
inline HttpResponse HttpPostForm(const std::string& address, const std::string& target, const std::string& form) {
  namespace http = boost::beast::http;
  http::request<http::string_body> request(http::verb::post, target, 11, form);
  request.set(http::field::content_type, "application/x-www-form-urlencoded");
  request.prepare_payload();
  return HttpExchange(address, std::move(request));
}

// The same for a GET.
inline HttpResponse HttpGet(const std::string& address, const std::string& target, const std::string& token) {
  return HttpAsk("GET", address, target, token);
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_TESTING_HTTP_GET_H_
