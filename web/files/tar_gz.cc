#include "web/files/tar_gz.h"

#include <string.h>
#include <zlib.h>

#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr size_t kBlock = 512;

// The header of ustar, field by field.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char rest[247];
};
static_assert(sizeof(Header) == kBlock, "a header fills a block");

void AddFile(const std::string& name, const std::string& contents, absl::Time time, std::string* tar) {
  Header header = {};
  snprintf(header.name, sizeof(header.name), "%s", name.c_str());
  snprintf(header.mode, sizeof(header.mode), "%07o", 0600);
  snprintf(header.uid, sizeof(header.uid), "%07o", 0);
  snprintf(header.gid, sizeof(header.gid), "%07o", 0);
  snprintf(header.size, sizeof(header.size), "%011zo", contents.size());
  snprintf(header.mtime, sizeof(header.mtime), "%011llo", static_cast<unsigned long long>(absl::ToUnixSeconds(time)));
  header.type = '0';
  memcpy(header.magic, "ustar", sizeof(header.magic));
  memcpy(header.version, "00", sizeof(header.version));
  // Of the header with blanks in the place of the sum.
  memset(header.checksum, ' ', sizeof(header.checksum));
  uint32_t sum = 0;
  for (size_t i = 0; i < sizeof(header); ++i) sum += reinterpret_cast<const unsigned char*>(&header)[i];
  snprintf(header.checksum, sizeof(header.checksum), "%06o", sum & 0777777);
  tar->append(reinterpret_cast<const char*>(&header), sizeof(header));
  tar->append(contents);
  tar->append((kBlock - contents.size() % kBlock) % kBlock, '\0');
}

}  // namespace

absl::StatusOr<std::string> PackTarGz(const std::vector<std::pair<std::string, std::string>>& files, absl::Time time) {
  std::string tar;
  for (const auto& [name, contents] : files) AddFile(name, contents, time, &tar);
  tar.append(2 * kBlock, '\0');
  z_stream stream = {};
  // 16 more than the greatest window: with gzip's header.
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return absl::InternalError("zlib cannot begin to compress");
  std::string packed(deflateBound(&stream, tar.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(tar.data());
  stream.avail_in = static_cast<uInt>(tar.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return absl::InternalError(absl::StrCat("zlib ended with ", result));
  return packed;
}

}  // namespace farandole
