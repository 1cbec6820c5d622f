#include "base/tls/certificate.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// Of a certificate's serial number: random, positive, at most 20 bytes (RFC 5280, 4.1.2.2).
constexpr int kSerialBits = 127;
// As long as a DNS name may be.
constexpr size_t kMaxNameBytes = 253;

template <typename T, void (*kFree)(T*)>
struct Free {
  void operator()(T* object) const { kFree(object); }
};
template <typename T, void (*kFree)(T*)>
using Owned = std::unique_ptr<T, Free<T, kFree>>;

void FreeStack(GENERAL_NAMES* names) { sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free); }
void FreeBio(BIO* bio) { BIO_free(bio); }

absl::Status Refused(const char* what) {
  char text[256] = "";
  ERR_error_string_n(ERR_get_error(), text, sizeof(text));
  return absl::InternalError(absl::StrCat("no ", what, " can be made: ", text));
}

bool IsDnsName(const std::string& name) {
  bool is_valid = !name.empty() && name.size() <= kMaxNameBytes;
  for (char c : name) is_valid = is_valid && (absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_');
  return is_valid;
}

bool AppendName(int type, const void* bytes, int count, GENERAL_NAMES* names) {
  Owned<GENERAL_NAME, GENERAL_NAME_free> entry(GENERAL_NAME_new());
  ASN1_STRING* value = type == GEN_IPADD ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
  if (entry == nullptr || value == nullptr || ASN1_STRING_set(value, bytes, count) != 1) {
    ASN1_STRING_free(value);
    return false;
  }
  GENERAL_NAME_set0_value(entry.get(), type, value);
  if (sk_GENERAL_NAME_push(names, entry.get()) <= 0) return false;
  static_cast<void>(entry.release());
  return true;
}

bool AddNames(const std::vector<std::string>& names, X509* certificate) {
  const Owned<GENERAL_NAMES, FreeStack> entries(sk_GENERAL_NAME_new_null());
  if (entries == nullptr) return false;
  for (const std::string& name : names) {
    unsigned char address[sizeof(in6_addr)];
    bool is_added = true;
    if (inet_pton(AF_INET, name.c_str(), address) == 1) {
      is_added = AppendName(GEN_IPADD, address, sizeof(in_addr), entries.get());
    } else if (inet_pton(AF_INET6, name.c_str(), address) == 1) {
      is_added = AppendName(GEN_IPADD, address, sizeof(in6_addr), entries.get());
    } else if (IsDnsName(name)) {
      is_added = AppendName(GEN_DNS, name.data(), static_cast<int>(name.size()), entries.get());
    }
    if (!is_added) return false;
  }
  return sk_GENERAL_NAME_num(entries.get()) == 0 ||
         X509_add1_ext_i2d(certificate, NID_subject_alt_name, entries.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

bool AddExtension(int nid, const char* value, X509* certificate) {
  const Owned<X509_EXTENSION, X509_EXTENSION_free> extension(X509V3_EXT_conf_nid(nullptr, nullptr, nid, value));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool SetSerial(X509* certificate) {
  const Owned<BIGNUM, BN_free> serial(BN_new());
  return serial != nullptr && BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetName(X509* certificate) {
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto* text = reinterpret_cast<const unsigned char*>("farandole coordinator");
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate, name) == 1;
}

template <typename Write>
std::string ToPem(const Write& write) {
  const Owned<BIO, FreeBio> memory(BIO_new(BIO_s_mem()));
  if (memory == nullptr || write(memory.get()) != 1) return "";
  char* bytes = nullptr;
  const auto count = BIO_get_mem_data(memory.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(count));
}

}  // namespace

absl::StatusOr<Certificate> MakeCertificate(const std::vector<std::string>& names, absl::Time not_before,
                                            absl::Time not_after) {
  const Owned<EVP_PKEY, EVP_PKEY_free> key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Refused("key");
  const Owned<X509, X509_free> certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !SetSerial(certificate.get()) || !SetName(certificate.get()) ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(not_before)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(not_after)) == nullptr ||
      X509_set_pubkey(certificate.get(), key.get()) != 1 || !AddNames(names, certificate.get()) ||
      !AddExtension(NID_basic_constraints, "critical,CA:FALSE", certificate.get()) ||
      !AddExtension(NID_ext_key_usage, "serverAuth", certificate.get()) ||
      X509_sign(certificate.get(), key.get(), EVP_sha256()) <= 0) {
    return Refused("certificate");
  }
  Certificate made;
  made.certificate_pem = ToPem([&](BIO* out) { return PEM_write_bio_X509(out, certificate.get()); });
  made.key_pem =
      ToPem([&](BIO* out) { return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  if (made.certificate_pem.empty() || made.key_pem.empty()) return Refused("certificate");
  return made;
}

}  // namespace farandole
