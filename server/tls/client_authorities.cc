#include "server/tls/client_authorities.h"

#include "absl/strings/str_cat.h"
#include "base/quiet_thread.h"
#include "base/tls/certificate_reader.h"
#include "checkpoint/durable_file.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

constexpr size_t kMostFileBytes = 1 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<ClientAuthorities>> ClientAuthorities::Load(std::string file) {
  std::unique_ptr<ClientAuthorities> loaded(new ClientAuthorities(std::move(file)));
  absl::StatusOr<std::string> pem = loaded->Read();
  if (!pem.ok()) return pem.status();
  loaded->first_ = *std::move(pem);
  return loaded;
}

ClientAuthorities::~ClientAuthorities() {
  if (!thread_.joinable()) return;
  stop_.Notify();
  thread_.join();
}

absl::StatusOr<std::string> ClientAuthorities::Read() const {
  absl::StatusOr<std::string> pem = ReadSmallFile(file_, kMostFileBytes);
  const absl::Status status = pem.ok() ? ReadCertificate(*pem).status() : pem.status();
  if (status.ok()) return pem;
  return absl::InvalidArgumentError(absl::StrCat("--client-ca ", file_, ": ", status.message()));
}

void ClientAuthorities::Watch(Listener listener, absl::Duration interval) {
  listener_ = std::move(listener);
  used_ = first_;
  thread_ = QuietThread([this, interval] {
    while (!stop_.WaitFor(interval)) Look();
  });
}

void ClientAuthorities::Look() {
  absl::StatusOr<std::string> pem = Read();
  if (!pem.ok()) return Refuse(pem.status());
  if (*pem != used_) {
    // The file may be half written: two looks must agree.
    if (*pem != seen_) {
      seen_ = *std::move(pem);
      return;
    }
    if (const absl::Status status = listener_.on_change(*pem); !status.ok()) return Refuse(status);
    used_ = *pem;
    spdlog::info("clients' new connections are verified by the authorities in {} as it is now", file_);
  }
  seen_refusal_ = told_refusal_ = "";
}

void ClientAuthorities::Refuse(const absl::Status& why) {
  const std::string sentence(why.message());
  if (sentence != seen_refusal_) {
    seen_refusal_ = sentence;
    return;
  }
  if (sentence == told_refusal_) return;
  told_refusal_ = sentence;
  spdlog::error("the authorities for clients' certificates stay as they were: {}", sentence);
  listener_.on_refusal();
}

}  // namespace farandole
