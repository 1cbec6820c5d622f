#include "base/tls/certificate_reader.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/text/time_text.h"

namespace farandole {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using OwnedBio = std::unique_ptr<BIO, FreeBio>;
using OwnedCertificate = std::unique_ptr<X509, FreeCertificate>;
using OwnedKey = std::unique_ptr<EVP_PKEY, FreeKey>;

OwnedBio ReaderOf(const std::string& pem) {
  return OwnedBio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// A key that needs a passphrase is no key: without this, OpenSSL would ask for one on the terminal.
int RefusePassphrase(char*, int, int, void*) { return -1; }

absl::Time TimeOf(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::UnixEpoch();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::vector<OwnedCertificate> ChainOf(const std::string& pem) {
  const OwnedBio text = ReaderOf(pem);
  std::vector<OwnedCertificate> chain;
  while (X509* certificate = PEM_read_bio_X509(text.get(), nullptr, &RefusePassphrase, nullptr))
    chain.emplace_back(certificate);
  ERR_clear_error();
  return chain;
}

OwnedKey KeyOf(const std::string& pem) {
  OwnedKey key(PEM_read_bio_PrivateKey(ReaderOf(pem).get(), nullptr, &RefusePassphrase, nullptr));
  ERR_clear_error();
  return key;
}

bool IsName(int type) { return type == GEN_DNS || type == GEN_IPADD || type == GEN_URI; }

}  // namespace

CertificateFacts FactsOf(const X509* certificate) {
  CertificateFacts facts;
  facts.not_before = TimeOf(X509_get0_notBefore(certificate));
  facts.not_after = TimeOf(X509_get0_notAfter(certificate));
  auto* entries = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; entries != nullptr && i < sk_GENERAL_NAME_num(entries); ++i) {
    int type = 0;
    const auto* value =
        static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(entries, i), &type));
    const unsigned char* bytes = IsName(type) ? ASN1_STRING_get0_data(value) : nullptr;
    if (bytes == nullptr) continue;
    const auto count = static_cast<size_t>(ASN1_STRING_length(value));
    char text[INET6_ADDRSTRLEN] = "";
    if (type == GEN_DNS || type == GEN_URI) {
      (type == GEN_DNS ? facts.dns_names : facts.uris).emplace_back(reinterpret_cast<const char*>(bytes), count);
    } else if ((count == sizeof(in_addr) || count == sizeof(in6_addr)) &&
               inet_ntop(count == sizeof(in_addr) ? AF_INET : AF_INET6, bytes, text, sizeof(text)) != nullptr) {
      facts.addresses.emplace_back(text);
    }
  }
  GENERAL_NAMES_free(entries);
  return facts;
}

absl::StatusOr<CertificateFacts> ReadCertificate(const std::string& pem) {
  const std::vector<OwnedCertificate> chain = ChainOf(pem);
  if (chain.empty()) return absl::InvalidArgumentError("there is no certificate in PEM");
  return FactsOf(chain.front().get());
}

int AddTrust(const std::string& pem, X509_STORE* store) {
  int count = 0;
  for (const OwnedCertificate& certificate : ChainOf(pem)) {
    if (X509_STORE_add_cert(store, certificate.get()) == 1) ++count;
  }
  ERR_clear_error();
  return count;
}

bool UsePair(const Certificate& pair, SSL* session) {
  const std::vector<OwnedCertificate> chain = ChainOf(pair.certificate_pem);
  const OwnedKey key = KeyOf(pair.key_pem);
  bool is_used = !chain.empty() && key != nullptr && SSL_use_certificate(session, chain.front().get()) == 1 &&
                 SSL_use_PrivateKey(session, key.get()) == 1;
  for (size_t i = 1; is_used && i < chain.size(); ++i) is_used = SSL_add1_chain_cert(session, chain[i].get()) == 1;
  ERR_clear_error();
  return is_used;
}

absl::StatusOr<CertificateFacts> CheckCertificate(const Certificate& pair, absl::Time now) {
  const std::vector<OwnedCertificate> chain = ChainOf(pair.certificate_pem);
  if (chain.empty()) return absl::InvalidArgumentError("the certificate's file holds no certificate in PEM");
  const OwnedKey key = KeyOf(pair.key_pem);
  if (key == nullptr)
    return absl::InvalidArgumentError("the key's file holds no private key in PEM that needs no passphrase");
  const bool fits = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) return absl::InvalidArgumentError("the private key is not that of the first certificate");
  for (size_t i = 0; i < chain.size(); ++i) {
    const CertificateFacts facts = FactsOf(chain[i].get());
    if (facts.not_before <= now && now < facts.not_after) continue;
    return absl::InvalidArgumentError(absl::StrCat("certificate ", i + 1, " of ", chain.size(), " is valid from ",
                                                   UtcText(facts.not_before), " to ", UtcText(facts.not_after),
                                                   ", and now is ", UtcText(now)));
  }
  return FactsOf(chain.front().get());
}

}  // namespace farandole
