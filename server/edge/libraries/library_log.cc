#include "server/edge/libraries/library_log.h"

#include <atomic>
#include <mutex>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "server/bytes/tenant_lines.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

// Of this process, as the libraries' logs are.
class LibraryLines {
 public:
  // Never destroyed: the libraries' threads may outlive static objects.
  static LibraryLines& Get() {
    static auto* const lines = new LibraryLines();
    return *lines;
  }

  void Warn(const std::string& library, const std::string& message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lines_.Admit(library, SteadyNow())) spdlog::warn("{}: {}", library, message);
  }
  void Tell() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lines_.due() <= SteadyNow()) lines_.Tell(SteadyNow());
  }

 private:
  std::mutex mutex_;
  TenantLines lines_{kMostLibraryLines, "troubles", [](const std::string& library, const std::string& sentence) {
                       spdlog::warn("{}: {}", library, sentence);
                     }};
};

std::atomic<uint64_t> failed_handshakes{0};

// gRPC's errors are ours to describe, so they are warnings here.
void OnGrpcLine(gpr_log_func_args* line) {
  const std::string message = line->message;
  const bool is_handshake = absl::StartsWith(message, "Handshake failed");
  if (is_handshake) failed_handshakes.fetch_add(1, std::memory_order_relaxed);
  if (line->severity == GPR_LOG_SEVERITY_ERROR && !is_handshake) {
    LibraryLines::Get().Warn("gRPC", message);
  } else {
    spdlog::debug("gRPC: {}", message);
  }
}

void OnProtobufLine(google::protobuf::LogLevel level, const char* /*file*/, int /*line*/, const std::string& message) {
  if (level == google::protobuf::LOGLEVEL_FATAL) {
    spdlog::critical("protobuf: {}", message);
  } else {
    LibraryLines::Get().Warn("protobuf", message);
  }
}

}  // namespace

void TakeLibrariesLogs() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(&OnGrpcLine);
    google::protobuf::SetLogHandler(&OnProtobufLine);
  });
}

void TellLibrariesLogs() { LibraryLines::Get().Tell(); }

uint64_t FailedHandshakes() { return failed_handshakes.load(std::memory_order_relaxed); }

}  // namespace farandole
