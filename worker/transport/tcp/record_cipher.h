#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_RECORD_CIPHER_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_RECORD_CIPHER_H_

#include <openssl/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace farandole {

// The bytes of one direction of a connection, encrypted and authenticated: a sequence of records, each
//
//   length   4 bytes, little-endian: of the plaintext, 1 to kMostRecordBytes
//   the plaintext, encrypted by AES-256-GCM
//   tag      16 bytes, over the length as well
//
// The nonce of a record is its number in its direction, which is not sent, XORed with 12 bytes that follow from the
// direction's secret, as in TLS 1.3 (RFC 8446, 5.3). So a record that was changed, left out, sent twice, moved, or sent
// in another direction or on another connection does not verify. After kRecordsPerKey records both ends take the next
// secret, which follows from the present one by HKDF: a key encrypts 64 GiB at most.
using RecordSecret = std::array<unsigned char, 32>;

constexpr size_t kMostRecordBytes = 64 << 10;
constexpr size_t kRecordLengthBytes = 4;
constexpr size_t kRecordTagBytes = 16;
// Bytes of a record besides those of its plaintext.
constexpr size_t kRecordOverhead = kRecordLengthBytes + kRecordTagBytes;
constexpr uint64_t kRecordsPerKey = 1 << 20;

// The secrets of the two directions, as one of the two ends has them.
struct ConnectionSecrets {
  RecordSecret send{};
  RecordSecret receive{};
};

// One direction's cipher with its next nonce. Owned by a RecordSealer or a RecordOpener.
class RecordCipher {
 public:
  RecordCipher(const RecordSecret& secret, bool seals, uint64_t records_per_key);
  ~RecordCipher();
  RecordCipher(const RecordCipher&) = delete;
  RecordCipher& operator=(const RecordCipher&) = delete;

  // Begins the next record, whose length field is `length`.
  void Begin(const unsigned char* length);
  // Encrypts or decrypts some bytes of it; `from` may be `to`.
  void Update(const char* from, size_t bytes, char* to);
  // Ends a record that was encrypted: its tag.
  void Seal(char* tag);
  // Ends a record that was decrypted; false: it does not verify.
  bool Verify(const char* tag);
  // How many records have begun.
  uint64_t count() const { return count_; }

 private:
  void TakeKey();

  const bool seals_;
  const uint64_t records_per_key_;
  RecordSecret secret_;
  std::array<unsigned char, 12> iv_{};
  std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> context_;
  uint64_t count_ = 0;
};

// Makes the records of one direction. Owned by its connection's end.
class RecordSealer {
 public:
  explicit RecordSealer(const RecordSecret& secret, uint64_t records_per_key = kRecordsPerKey)
      : cipher_(secret, /*seals=*/true, records_per_key) {}
  // Writes a record of the first `bytes` bytes of `parts`, which are 1 to kMostRecordBytes, to `to`, which has room for
  // kRecordOverhead more.
  void Seal(absl::Span<const iovec> parts, size_t bytes, char* to);

 private:
  RecordCipher cipher_;
};

// Reads the records of one direction, in order. Owned by its connection's end.
class RecordOpener {
 public:
  explicit RecordOpener(const RecordSecret& secret, uint64_t records_per_key = kRecordsPerKey)
      : cipher_(secret, /*seals=*/false, records_per_key) {}
  // Returns the number of bytes that the length field at the front of a record gives.
  //   DATA_LOSS: no sealer writes that; a sentence's end that says which record it is
  absl::StatusOr<size_t> LengthOf(const char* record) const;
  // Decrypts the record of `bytes` bytes of plaintext into `parts`, which have at least that room. Where it does not
  // verify, the parts hold zeros in their place.
  //   DATA_LOSS: it does not verify; a sentence's end that says which record it is
  absl::Status Open(const char* record, size_t bytes, absl::Span<const iovec> parts);

 private:
  RecordCipher cipher_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_RECORD_CIPHER_H_
