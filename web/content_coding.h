#ifndef FARANDOLE_WEB_CONTENT_CODING_H_
#define FARANDOLE_WEB_CONTENT_CODING_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "web/http_message.h"

namespace farandole {

// Smaller replies fit into a packet or two as they are.
inline constexpr size_t kLeastCompressedBytes = 1024;
// The edge's one thread compresses 1 MiB in some 10 ms; a larger reply would keep others waiting for longer than this
// takes four times.
inline constexpr size_t kMostCompressedBytes = 4 << 20;

// A client that sends this header Accept-Encoding takes gzip (RFC 9110, 12.5.3).
bool TakesGzip(absl::string_view accept_encoding);

// Compresses the body of a 200 that may be compressed, by zlib's fastest level, where that makes it smaller; the
// reply's headers say so. A second call changes nothing. Any thread.
void Compress(bool takes_gzip, HttpReply* reply);

}  // namespace farandole

#endif  // FARANDOLE_WEB_CONTENT_CODING_H_
