#include "worker/transport/tcp/record_stream.h"

#include <endian.h>
#include <string.h>

#include <algorithm>

#include "base/check.h"

namespace farandole {

void RecordWriter::Seal(absl::Span<const iovec> parts, size_t bytes) {
  FD_CHECK_EQ(sent_, size_) << "a record is on its way";
  sealer_.Seal(parts, bytes, record_.get());
  size_ = bytes + kRecordOverhead;
  sent_ = 0;
}

size_t RecordWriter::Sent(size_t bytes) {
  sent_ += bytes;
  FD_CHECK(sent_ <= size_);
  return bytes > 0 && sent_ == size_ ? size_ - kRecordOverhead : 0;
}

absl::Span<char> RecordReader::room() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ > 0 && kCapacity - end_ < kMostRecordBytes) {
    memmove(bytes_.get(), bytes_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return absl::MakeSpan(bytes_.get() + end_, kCapacity - end_);
}

bool RecordReader::HasSome() const {
  if (!error_.ok() || plain_begin_ < plain_end_) return true;
  if (end_ - begin_ < kRecordLengthBytes) return false;
  const absl::StatusOr<size_t> length = opener_.LengthOf(bytes_.get() + begin_);
  return !length.ok() || end_ - begin_ >= *length + kRecordOverhead;
}

absl::StatusOr<size_t> RecordReader::Read(absl::Span<const iovec> parts, size_t most) {
  if (!error_.ok()) return error_;
  if (plain_begin_ < plain_end_) return TakePlain(parts, most);
  if (most == 0 || end_ - begin_ < kRecordLengthBytes) return 0;
  const char* const record = bytes_.get() + begin_;
  const absl::StatusOr<size_t> length = opener_.LengthOf(record);
  if (!length.ok()) return error_ = length.status();
  if (end_ - begin_ < *length + kRecordOverhead) return 0;
  const bool fits = *length <= most;
  if (!fits && plain_ == nullptr) plain_.reset(new char[kMostRecordBytes]);
  const iovec whole = {plain_.get(), kMostRecordBytes};
  absl::Status opened = opener_.Open(record, *length, fits ? parts : absl::MakeConstSpan(&whole, 1));
  if (!opened.ok()) return error_ = std::move(opened);
  begin_ += *length + kRecordOverhead;
  if (fits) return *length;
  plain_begin_ = 0;
  plain_end_ = *length;
  return TakePlain(parts, most);
}

size_t RecordReader::TakePlain(absl::Span<const iovec> parts, size_t most) {
  size_t taken = 0;
  for (const iovec& part : parts) {
    const size_t piece = std::min({part.iov_len, plain_end_ - plain_begin_, most - taken});
    if (piece == 0) continue;
    memcpy(part.iov_base, plain_.get() + plain_begin_, piece);
    plain_begin_ += piece;
    taken += piece;
  }
  return taken;
}

}  // namespace farandole
