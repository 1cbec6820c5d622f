#include "worker/order/encrypted_stream.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole {

absl::StatusOr<size_t> EncryptedStream::Send(absl::string_view bytes) {
  RecordWriter& out = records_.out;
  size_t taken = 0;
  while (taken < bytes.size()) {
    if (out.rest().empty()) {
      const iovec part = {const_cast<char*>(bytes.data() + taken), bytes.size() - taken};
      out.Seal(absl::MakeConstSpan(&part, 1), std::min(part.iov_len, kMostRecordBytes));
    }
    const absl::StatusOr<size_t> sent = stream_->Send(out.rest());
    if (!sent.ok()) return sent;
    const size_t gone = out.Sent(*sent);
    if (gone == 0) break;
    taken += gone;
  }
  return taken;
}

absl::StatusOr<size_t> EncryptedStream::Receive(char* to, size_t most) {
  RecordReader& in = records_.in;
  size_t received = 0;
  while (received < most) {
    const iovec room = {to + received, most - received};
    const absl::StatusOr<size_t> read = in.Read(absl::MakeConstSpan(&room, 1), room.iov_len);
    if (!read.ok()) {
      // The bytes before it count first.
      if (received > 0) break;
      return absl::UnavailableError(absl::StrCat("broke: ", read.status().message()));
    }
    received += *read;
    if (*read > 0) continue;
    const absl::Span<char> bytes = in.room();
    const absl::StatusOr<size_t> came = stream_->Receive(bytes.data(), bytes.size());
    if (!came.ok()) {
      if (received > 0) break;
      return came;
    }
    if (*came == 0) break;
    in.Add(*came);
  }
  return received;
}

}  // namespace farandole
