// The C interface to workers that come and go.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/text/utf8_text.h"
#include "worker/abi/c_call.h"
#include "worker/farandole.h"

using farandole::Worker;

namespace {

// Of this thread's last farandole_change_wanted.
thread_local std::string change_sentence;

}  // namespace

extern "C" {

int farandole_change_wanted(farandole_change* change) {
  change_sentence.clear();
  return farandole::WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [change](Worker& worker) {
    farandole_change read = {};
    read.struct_bytes = change->struct_bytes;
    if (worker.link() != nullptr) {
      const farandole::v1::ChangeWanted wanted = worker.link()->change_wanted();
      read.serial = wanted.serial();
      read.joining = static_cast<int32_t>(wanted.joining());
      read.leaving = wanted.leaving_size();
      const auto rank = static_cast<uint32_t>(worker.rank_numbers().rank);
      read.i_leave = std::count(wanted.leaving().begin(), wanted.leaving().end(), rank) > 0 ? 1 : 0;
      change_sentence = wanted.sentence();
    }
    memcpy(change, &read, std::min<size_t>(change->struct_bytes, sizeof(read)));
    return static_cast<int>(FARANDOLE_OK);
  });
}

const char* farandole_change_sentence(void) { return change_sentence.c_str(); }

int farandole_depart(int64_t grace_ms, const char* reason) {
  return farandole::WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    const std::string words = farandole::ReplaceInvalidUtf8(reason == nullptr ? "" : reason);
    return farandole::Code(
        farandole::Process().Depart(worker, absl::Milliseconds(std::max<int64_t>(grace_ms, 0)), words));
  });
}

}  // extern "C"
