#include "web/content_coding.h"

#include <zlib.h>

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/check.h"

namespace farandole {
namespace {

// zlib writes gzip's head and end instead of its own.
constexpr int kGzipWindow = 15 + 16;
constexpr int kMemoryLevel = 8;

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  FD_CHECK(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  FD_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END) << "deflateBound is enough for all of it";
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

bool TakesGzip(absl::string_view accept_encoding) {
  bool takes_any = false;
  for (const absl::string_view one : absl::StrSplit(accept_encoding, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(one, absl::MaxSplits(';', 1));
    const absl::string_view coding = absl::StripAsciiWhitespace(parts.first);
    absl::string_view weight = absl::StripAsciiWhitespace(parts.second);
    double quality = 1;
    if (absl::StartsWithIgnoreCase(weight, "q=") && !absl::SimpleAtod(weight.substr(2), &quality)) quality = 0;
    if (absl::EqualsIgnoreCase(coding, "gzip")) return quality > 0;
    if (coding == "*") takes_any = quality > 0;
  }
  return takes_any;
}

void Compress(bool takes_gzip, HttpReply* reply) {
  const size_t bytes = reply->body.size();
  if (!std::exchange(reply->may_compress, false)) return;
  if (reply->status != 200 || bytes < kLeastCompressedBytes || bytes > kMostCompressedBytes) return;
  reply->headers.emplace_back("Vary", "Accept-Encoding");
  if (!takes_gzip) return;
  std::string packed = Gzip(reply->body);
  if (packed.size() >= bytes) return;
  reply->body = std::move(packed);
  reply->headers.emplace_back("Content-Encoding", "gzip");
}

}  // namespace farandole
