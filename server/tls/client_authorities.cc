#include "server/tls/client_authorities.h"

#include "absl/strings/str_cat.h"
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

absl::StatusOr<std::string> ClientAuthorities::Read() const {
  absl::StatusOr<std::string> pem = ReadSmallFile(file_, kMostFileBytes);
  const absl::Status status = pem.ok() ? ReadCertificate(*pem).status() : pem.status();
  if (status.ok()) return pem;
  return absl::InvalidArgumentError(absl::StrCat("--client-ca ", file_, ": ", status.message()));
}

void ClientAuthorities::Watch(Listener listener, absl::Duration interval) {
  listener_ = std::move(listener);
  used_ = first_;
  watch_.Start([this] { return Look(); },
               [this](const std::string& sentence) {
                 spdlog::error("the authorities for clients' certificates stay as they were: {}", sentence);
                 listener_.on_refusal();
               },
               interval);
}

absl::Status ClientAuthorities::Look() {
  absl::StatusOr<std::string> pem = Read();
  if (!pem.ok()) return pem.status();
  if (*pem == used_) return absl::OkStatus();
  // The file may be half written: two looks must agree.
  if (*pem != seen_) {
    seen_ = *std::move(pem);
    return absl::OkStatus();
  }
  if (absl::Status status = listener_.on_change(*pem); !status.ok()) return status;
  used_ = *std::move(pem);
  spdlog::info("clients' new connections are verified by the authorities in {} as it is now", file_);
  return absl::OkStatus();
}

}  // namespace farandole
