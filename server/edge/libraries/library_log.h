#ifndef FARANDOLE_SERVER_EDGE_LIBRARIES_LIBRARY_LOG_H_
#define FARANDOLE_SERVER_EDGE_LIBRARIES_LIBRARY_LOG_H_

#include <cstdint>

namespace farandole {

// From now on what gRPC and protobuf would write to stderr joins our log, as warnings: of each library
// kMostLibraryLines in TenantLines::kWindow, and then the number of the others, since clients can have them complain at
// will. That a TLS handshake has failed is told at debug only, and counted. Any thread; once is enough.
void TakeLibrariesLogs();
inline constexpr int kMostLibraryLines = 5;

// Tells of lines that were left out, where their window is over. To be called now and then.
void TellLibrariesLogs();

// TLS handshakes on ports of gRPC that have failed, in this process.
uint64_t FailedHandshakes();

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_LIBRARIES_LIBRARY_LOG_H_
