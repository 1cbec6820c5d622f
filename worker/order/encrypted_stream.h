#ifndef FARANDOLE_WORKER_ORDER_ENCRYPTED_STREAM_H_
#define FARANDOLE_WORKER_ORDER_ENCRYPTED_STREAM_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/order/relay_stream.h"
#include "worker/transport/tcp/record_stream.h"

namespace farandole {

// The bytes between two leaders in records (worker/transport/tcp/record_cipher.h), over another stream. Posts and
// entries have small tensors in them.
class EncryptedStream final : public RelayStream {
 public:
  EncryptedStream(std::unique_ptr<RelayStream> stream, const ConnectionSecrets& secrets)
      : stream_(std::move(stream)), records_(secrets) {}

  // Bytes that were not taken must be given again, at the front of the next call's: some may be on their way already.
  absl::StatusOr<size_t> Send(absl::string_view bytes) override;
  // The error says also that a record does not verify.
  absl::StatusOr<size_t> Receive(char* to, size_t most) override;
  void WantRead(bool want) override { stream_->WantRead(want); }
  void WantWrite(bool want) override { stream_->WantWrite(want); }

 private:
  const std::unique_ptr<RelayStream> stream_;
  RecordStreams records_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_ENCRYPTED_STREAM_H_
