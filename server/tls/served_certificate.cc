#include "server/tls/served_certificate.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text/time_text.h"
#include "checkpoint/durable_file.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

constexpr size_t kMostFileBytes = 1 << 20;

bool IsSame(const Certificate& a, const Certificate& b) {
  return a.certificate_pem == b.certificate_pem && a.key_pem == b.key_pem;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedCertificate>> ServedCertificate::Load(std::string certificate_file,
                                                                           std::string key_file) {
  std::unique_ptr<ServedCertificate> loaded(new ServedCertificate(std::move(certificate_file), std::move(key_file)));
  absl::StatusOr<Certificate> pair = loaded->Read();
  if (!pair.ok()) return absl::InvalidArgumentError(pair.status().message());
  absl::StatusOr<CertificateFacts> facts = CheckCertificate(*pair, absl::Now());
  if (!facts.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--tls-cert ", loaded->certificate_file_, ", --tls-key ",
                                                   loaded->key_file_, ": ", facts.status().message()));
  }
  loaded->first_ = *std::move(pair);
  loaded->facts_ = *std::move(facts);
  return loaded;
}

absl::StatusOr<Certificate> ServedCertificate::Read() const {
  Certificate pair;
  for (const auto& [flag, file, content] : {std::make_tuple("--tls-cert", &certificate_file_, &pair.certificate_pem),
                                            std::make_tuple("--tls-key", &key_file_, &pair.key_pem)}) {
    absl::StatusOr<std::string> read = ReadSmallFile(*file, kMostFileBytes);
    if (!read.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, " ", *file, ": ", read.status().message()));
    *content = *std::move(read);
  }
  return pair;
}

void ServedCertificate::Watch(Listener listener, absl::Duration interval) {
  listener_ = std::move(listener);
  served_ = first_;
  watch_.Start([this] { return Look(); },
               [this](const std::string& sentence) {
                 spdlog::error(
                     "the files {} and {} have changed and are not served, the certificate before them still is: {}",
                     certificate_file_, key_file_, sentence);
                 listener_.on_refusal();
               },
               interval);
}

absl::Status ServedCertificate::Look() {
  const absl::StatusOr<Certificate> pair = Read();
  if (!pair.ok()) return pair.status();
  if (IsSame(*pair, served_)) return absl::OkStatus();
  const absl::StatusOr<CertificateFacts> facts = CheckCertificate(*pair, absl::Now());
  if (!facts.ok()) return facts.status();
  if (absl::Status status = listener_.on_change(*pair, *facts); !status.ok()) return status;
  served_ = *pair;
  spdlog::info("the certificate in {} is served from now on; it is valid to {}", certificate_file_,
               UtcText(facts->not_after));
  return absl::OkStatus();
}

}  // namespace farandole
