#ifndef FARANDOLE_WEB_EDGE_STREAM_H_
#define FARANDOLE_WEB_EDGE_STREAM_H_

#include <memory>
#include <optional>
#include <utility>

#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/beast/core/tcp_stream.hpp"

namespace farandole {

// A connection of the HTTP edge, with or without TLS: Asio's AsyncReadStream and AsyncWriteStream, with deadlines as
// beast::tcp_stream has them. Owned by its session; the edge's thread only.
class EdgeStream {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  // Null: without TLS.
  EdgeStream(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> context)
      : tcp_(std::move(socket)), context_(std::move(context)) {
    if (context_ != nullptr) tls_.emplace(tcp_, *context_);
  }

  bool has_tls() const { return tls_.has_value(); }
  boost::beast::tcp_stream& tcp() { return tcp_; }
  executor_type get_executor() { return tcp_.get_executor(); }

  // With TLS only: `handler(error)`.
  template <typename Handler>
  void AsyncHandshake(Handler handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::move(handler));
  }
  // With TLS only: says that nothing more comes; ends when the client says so too.
  template <typename Handler>
  void AsyncShutdown(Handler handler) {
    tls_->async_shutdown(std::move(handler));
  }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_.has_value()) {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      tcp_.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }

  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_.has_value()) {
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      tcp_.async_write_some(buffers, std::forward<Handler>(handler));
    }
  }

 private:
  boost::beast::tcp_stream tcp_;
  // Shared with the edge: the connection keeps its certificate.
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_EDGE_STREAM_H_
