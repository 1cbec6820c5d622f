#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_RECORD_STREAM_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_RECORD_STREAM_H_

#include <sys/uio.h>

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/transport/tcp/record_cipher.h"

namespace farandole {

// One record at a time that is on its way out. Owned by a connection's end.
class RecordWriter {
 public:
  explicit RecordWriter(const RecordSecret& secret, uint64_t records_per_key = kRecordsPerKey)
      : sealer_(secret, records_per_key) {}

  // Bytes to be sent yet; empty: seal the next record.
  absl::string_view rest() const { return absl::string_view(record_.get() + sent_, size_ - sent_); }
  // Where nothing is to be sent: makes a record of the first `bytes` bytes of `parts`, 1 to kMostRecordBytes.
  void Seal(absl::Span<const iovec> parts, size_t bytes);
  // Notes that so many bytes of rest() were sent. Gives how many bytes of plaintext have gone by it: all of the
  // record's if it was the record's end, otherwise none.
  size_t Sent(size_t bytes);

 private:
  RecordSealer sealer_;
  const std::unique_ptr<char[]> record_{new char[kMostRecordBytes + kRecordOverhead]};
  size_t size_ = 0;
  size_t sent_ = 0;
};

// Bytes that have come, and the plaintext of those records of them that verify. Owned by a connection's end.
class RecordReader {
 public:
  explicit RecordReader(const RecordSecret& secret, uint64_t records_per_key = kRecordsPerKey)
      : opener_(secret, records_per_key) {}

  // Where the next bytes that come are to be put; never empty after Read has given 0.
  absl::Span<char> room();
  // Notes that so many bytes were put into room().
  void Add(size_t bytes) { end_ += bytes; }
  // Fills `parts`, of `most` bytes in all, with plaintext that verifies, as far as there is some in one record, and
  // gives how many bytes that were: 0 if more bytes must come first.
  //   DATA_LOSS: as RecordOpener has it; from then on always. `parts` have nothing of the record: zeros, or what was
  //   there
  absl::StatusOr<size_t> Read(absl::Span<const iovec> parts, size_t most);
  // Whether Read may give something without more bytes.
  bool HasSome() const;
  // An upper bound of the plaintext in the bytes that have come and were not read.
  size_t held() const { return end_ - begin_ + plain_end_ - plain_begin_; }

 private:
  static constexpr size_t kCapacity = 4 * (kMostRecordBytes + kRecordOverhead);

  size_t TakePlain(absl::Span<const iovec> parts, size_t most);

  RecordOpener opener_;
  absl::Status error_;
  // [begin_, end_) have come and are in no record that was opened.
  const std::unique_ptr<char[]> bytes_{new char[kCapacity]};
  size_t begin_ = 0;
  size_t end_ = 0;
  // The rest of a record for which the reader had no room: [plain_begin_, plain_end_).
  std::unique_ptr<char[]> plain_;
  size_t plain_begin_ = 0;
  size_t plain_end_ = 0;
};

// One end of an encrypted connection.
struct RecordStreams {
  explicit RecordStreams(const ConnectionSecrets& secrets) : out(secrets.send), in(secrets.receive) {}
  RecordWriter out;
  RecordReader in;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_RECORD_STREAM_H_
