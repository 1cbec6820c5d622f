#ifndef FARANDOLE_WEB_HTTP_SESSION_H_
#define FARANDOLE_WEB_HTTP_SESSION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http/message.hpp"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/string_body.hpp"
#include "web/connection_places.h"
#include "web/edge_stream.h"
#include "web/event_stream.h"
#include "web/http_edge.h"
#include "web/http_message.h"
#include "web/writer/reply_writer.h"

namespace farandole {

// One connection of the HTTP edge: reads a request, writes the reply, and again. Shared by the operations that are
// under way on it, one at a time: it ends with the last. The edge's thread only.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  // `tls`: what the connection speaks, null for no TLS. `options`, `site`, `places` and `writers` outlive the session;
  // `ended` is called when it ends.
  HttpSession(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls,
              const HttpEdgeOptions& options, const HttpSite& site, ConnectionPlaces* places, ReplyWriters* writers,
              std::function<void(ConnectionPlaces::Id)> ended);
  ~HttpSession();

  // Serves the connection until its end.
  void Begin();
  // Answers once, whatever is asked, and closes; closes at once where TLS would have to be agreed on first.
  void Turn(const HttpReply& reply);
  // Closes it at once: its place is another's now.
  void Cut();

  ConnectionPlaces::Id id() const { return id_; }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Response = boost::beast::http::response<boost::beast::http::string_body>;

  void Serve();
  void OnRead(const boost::system::error_code& error);
  void Answer();
  void Write(HttpReply reply, bool keep_alive);
  // Has the reply written elsewhere; meanwhile nothing is read from or written to the connection.
  void WriteInTurn(HttpReply reply, bool keep_alive);
  void OnWritten(const boost::system::error_code& error);
  // Of a reply that goes on: begins it, looks for the reader's end, and writes what waits.
  void Open(std::shared_ptr<EventStream> events);
  void AwaitEnd();
  void Pump();
  void Send();
  void Linger();
  void Discard();

  EdgeStream stream_;
  const HttpEdgeOptions& options_;
  const HttpSite& site_;
  ConnectionPlaces* const places_;
  ReplyWriters* const writers_;
  const std::function<void(ConnectionPlaces::Id)> ended_;
  // The client's address.
  const std::string peer_;
  const ConnectionPlaces::Id id_;
  // A known token came with the last request.
  bool is_known_ = false;
  // The last request takes a reply that gzip has compressed.
  bool takes_gzip_ = false;
  // The last request named a host that is to be asked by HTTPS only, from now on.
  bool is_strict_ = false;
  // Has a bound: strangers fill it.
  boost::beast::flat_buffer buffer_;
  // One parser and one response for each request.
  std::optional<Parser> parser_;
  std::optional<Response> response_;
  // HttpReply::held of the response that is under way.
  std::shared_ptr<const void> held_;
  // Shared with its writer. Null: the reply has an end.
  std::shared_ptr<EventStream> events_;
  // The bytes of it that are under way; empty: none are.
  std::string writing_;
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_HTTP_SESSION_H_
