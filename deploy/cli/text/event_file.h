#ifndef FARANDOLE_DEPLOY_CLI_TEXT_EVENT_FILE_H_
#define FARANDOLE_DEPLOY_CLI_TEXT_EVENT_FILE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "farandole/v1/logged.pb.h"

namespace farandole {

// The files that TensorBoard reads: records of length, checksum, bytes and checksum (TFRecord), whose bytes are
// messages tensorflow.Event (tensorflow/core/util/event.proto).

// RFC 3720's CRC-32C.
uint32_t Crc32c(absl::string_view bytes);

// Puts what a job has logged into the contents of event files, by the name of their run: "" has the averages, "rank3"
// the curves of rank 3. A point stands at its last step, with its mean as a float.
std::map<std::string, std::string> EventFiles(const v1::ListLoggedResponse& logged);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_TEXT_EVENT_FILE_H_
