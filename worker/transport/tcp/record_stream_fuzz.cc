// Bytes of a stranger in the place of records: alone, and as changes of records that are right.
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "worker/transport/tcp/record_stream.h"

namespace {

using farandole::RecordReader;
using farandole::RecordSecret;
using farandole::RecordWriter;

// The text that a reader gives for bytes that come in pieces, taken in parts of `most` bytes.
std::string ReadAll(absl::string_view bytes, size_t piece, size_t most) {
  RecordReader reader(RecordSecret{});
  std::string text;
  std::string part(most, ' ');
  for (;;) {
    const iovec parts = {part.data(), part.size()};
    const absl::StatusOr<size_t> got = reader.Read({&parts, 1}, most);
    if (!got.ok()) {
      // No more comes out of it, whatever comes.
      FD_CHECK(reader.Read({&parts, 1}, most).status() == got.status());
      return text;
    }
    FD_CHECK(*got <= most);
    text.append(part, 0, *got);
    if (*got > 0) continue;
    FD_CHECK(!reader.HasSome());
    if (bytes.empty()) return text;
    const absl::Span<char> room = reader.room();
    FD_CHECK(!room.empty());
    const size_t taken = std::min({room.size(), bytes.size(), piece});
    memcpy(room.data(), bytes.data(), taken);
    reader.Add(taken);
    bytes.remove_prefix(taken);
  }
}

std::string Sealed(RecordWriter* writer, std::string text) {
  const iovec part = {text.data(), text.size()};
  writer->Seal({&part, 1}, text.size());
  std::string record(writer->rest());
  writer->Sent(record.size());
  return record;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const size_t piece = 1 + data[0] * 7;
  const size_t most = 1 + data[1] * 300;
  const bool is_change = data[2] % 2 == 1;
  absl::string_view bytes(reinterpret_cast<const char*>(data) + 3, size - 3);
  if (!is_change) {
    // A record cannot be made without the secret.
    FD_CHECK(ReadAll(bytes, piece, most).empty());
    return 0;
  }
  static const std::string text = std::string(300, 'a') + "b" + std::string(3000, 'c');
  static const std::string records = [] {
    RecordWriter writer(RecordSecret{});
    std::string all;
    for (const std::string& part : {std::string(300, 'a'), std::string("b"), std::string(3000, 'c')})
      all += Sealed(&writer, part);
    return all;
  }();
  // Changes: 2 bytes of the place, how many bytes are taken out there, and a byte that is put there.
  std::string changed = records;
  for (; bytes.size() >= 4; bytes.remove_prefix(4)) {
    const size_t place = static_cast<unsigned char>(bytes[0]) * 256 + static_cast<unsigned char>(bytes[1]);
    const size_t at = std::min(place, changed.size());
    const size_t taken = std::min<size_t>(static_cast<unsigned char>(bytes[2]), changed.size() - at);
    changed.replace(at, taken, 1, bytes[3]);
  }
  const std::string read = ReadAll(changed, piece, most);
  FD_CHECK(absl::StartsWith(text, read)) << "a reader gives what no writer has sealed";
  if (changed == records) FD_CHECK(read == text);
  return 0;
}
