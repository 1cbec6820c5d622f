#include "base/tls/test_authority.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"

namespace farandole {
namespace {

void Extend(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  FD_CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1) << "no extension " << value;
  X509_EXTENSION_free(extension);
}

X509* Begin(const std::string& name, EVP_PKEY* key, absl::Time not_before, absl::Time not_after) {
  static std::atomic<int> serial{1};
  X509* certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(not_before));
  ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(not_after));
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_pubkey(certificate, key);
  return certificate;
}

template <typename Write>
std::string ToPem(const Write& write) {
  BIO* memory = BIO_new(BIO_s_mem());
  FD_CHECK(write(memory) == 1) << "it cannot be written as PEM";
  char* bytes = nullptr;
  const auto count = BIO_get_mem_data(memory, &bytes);
  std::string text(bytes, static_cast<size_t>(count));
  BIO_free(memory);
  return text;
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name) : key_(EVP_EC_gen("P-256")) {
  certificate_ = Begin(name, key_, absl::UnixEpoch(), absl::Now() + absl::Hours(1000));
  X509_set_issuer_name(certificate_, X509_get_subject_name(certificate_));
  Extend(certificate_, NID_basic_constraints, "critical,CA:TRUE");
  Extend(certificate_, NID_key_usage, "critical,keyCertSign");
  FD_CHECK(X509_sign(certificate_, key_, EVP_sha256()) > 0) << "the authority does not sign itself";
  pem_ = ToPem([this](BIO* out) { return PEM_write_bio_X509(out, certificate_); });
}

TestAuthority::~TestAuthority() {
  X509_free(certificate_);
  EVP_PKEY_free(key_);
}

Certificate TestAuthority::Issue(const std::vector<std::string>& uris, absl::Time not_before,
                                 absl::Time not_after) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = Begin("a test's", key, not_before, not_after);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate_));
  Extend(certificate, NID_basic_constraints, "critical,CA:FALSE");
  Extend(certificate, NID_ext_key_usage, "serverAuth,clientAuth");
  std::string names = "DNS:localhost,IP:127.0.0.1";
  for (const std::string& uri : uris) absl::StrAppend(&names, ",URI:", uri);
  Extend(certificate, NID_subject_alt_name, names);
  FD_CHECK(X509_sign(certificate, key_, EVP_sha256()) > 0) << "the authority does not sign";
  Certificate made;
  made.certificate_pem = ToPem([&](BIO* out) { return PEM_write_bio_X509(out, certificate); });
  made.key_pem =
      ToPem([&](BIO* out) { return PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr); });
  X509_free(certificate);
  EVP_PKEY_free(key);
  return made;
}

}  // namespace farandole
