#ifndef FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_OPTIONS_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_OPTIONS_H_

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "farandole/status.h"

namespace farandole {
inline namespace sdk {
namespace client {

/// Gives the token to each call, so that a new token counts from the next call on. Made of nothing, it gives none.
class TokenSource {
 public:
  using Function = std::function<StatusOr<std::string>()>;

  TokenSource() = default;
  /// One that never changes.
  static TokenSource Of(std::string token) {
    return FromFunction("", [token = std::move(token)]() -> StatusOr<std::string> { return token; });
  }
  static TokenSource FromFile(const std::string& path) {
    return FromFunction(path, [path]() -> StatusOr<std::string> {
      std::ifstream file(path);
      std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      if (file.is_open() && !file.bad()) return text;
      return Status(StatusCode::kNotFound, "the token file " + path + " cannot be read");
    });
  }
  static TokenSource FromVariable(const std::string& name) {
    return FromFunction("the variable " + name, [name]() -> StatusOr<std::string> {
      if (const char* const text = std::getenv(name.c_str()); text != nullptr) return std::string(text);
      return Status(StatusCode::kNotFound, "the variable " + name + ", which is to hold a token, is not set");
    });
  }
  /// The function is called for each call, on its thread. `origin` is for people, who read it in errors: "Vault".
  static TokenSource FromFunction(std::string origin, Function function) {
    TokenSource source;
    source.origin_ = std::move(origin);
    source.function_ = std::move(function);
    return source;
  }

  const std::string& origin() const { return origin_; }
  /// The token without blanks around it; "": none. UNAUTHENTICATED: the source gives an empty one.
  StatusOr<std::string> Get() const {
    if (!function_) return std::string();
    StatusOr<std::string> text = function_();
    if (!text.ok()) return text;
    constexpr const char* kBlanks = " \t\r\n";
    const size_t first = text->find_first_not_of(kBlanks);
    if (first == std::string::npos) {
      return Status(StatusCode::kUnauthenticated,
                    "the token" + (origin_.empty() ? "" : " in " + origin_) + " is empty");
    }
    return text->substr(first, text->find_last_not_of(kBlanks) - first + 1);
  }

 private:
  std::string origin_;
  Function function_;
};

/// The files, in PEM, by which both sides know each other. Client::Open reads them.
struct Tls {
  /// Certificates that the coordinator's must descend from; "": those of the system.
  std::string ca_file;
  /// The certificate, and its key, by which this program proves itself to the coordinator where it has no token, or to
  /// a proxy that wants one; "": none. A new certificate in the files counts from the next call on.
  std::string cert_file;
  std::string key_file;
  /// The name in the coordinator's certificate; "": the host of the address.
  std::string server_name;
};

/// Where a coordinator is, and how this program proves that it may speak to it.
struct Options {
  /// HOST:PORT.
  std::string address;
  TokenSource token;
  /// None is for a coordinator on this host: elsewhere the token would travel in the clear.
  std::optional<Tls> tls;
  /// Without TLS: users of this host, besides root and this program's own, whose programs may have the coordinator's
  /// port. Names or numbers with commas between them, "*" for anyone; "": farandole.
  std::string coordinator_users;
  /// For how long a call is made again while the coordinator is away, or has no room and says when to retry; 0: one
  /// attempt, which waits 10 s for its answer.
  std::chrono::milliseconds patience{10'000};
  /// How often a Watch asks.
  std::chrono::milliseconds watch_interval{1'000};
  /// Asked about every 100 ms while a call waits; a value other than 0 has it give up with ABORTED. May be null.
  int (*interrupted)() = nullptr;

  /// Those that workers and `farandole run` use as well: FARANDOLE_COORDINATOR, FARANDOLE_TOKEN_FILE,
  /// FARANDOLE_CA_FILE, and with that FARANDOLE_CERT_FILE and FARANDOLE_KEY_FILE; FARANDOLE_COORDINATOR_USERS.
  /// INVALID_ARGUMENT: there is no FARANDOLE_COORDINATOR.
  static StatusOr<Options> FromEnvironment() {
    const auto variable = [](const char* name) {
      const char* const text = std::getenv(name);
      return std::string(text == nullptr ? "" : text);
    };
    Options options;
    options.address = variable("FARANDOLE_COORDINATOR");
    if (options.address.empty()) {
      return Status(StatusCode::kInvalidArgument,
                    "FARANDOLE_COORDINATOR is not set: it is HOST:PORT of the coordinator");
    }
    if (const std::string path = variable("FARANDOLE_TOKEN_FILE"); !path.empty()) {
      options.token = TokenSource::FromFile(path);
    }
    options.coordinator_users = variable("FARANDOLE_COORDINATOR_USERS");
    if (const std::string path = variable("FARANDOLE_CA_FILE"); !path.empty()) {
      Tls& tls = options.tls.emplace();
      tls.ca_file = path;
      tls.cert_file = variable("FARANDOLE_CERT_FILE");
      tls.key_file = variable("FARANDOLE_KEY_FILE");
    }
    return options;
  }
};

}  // namespace client
}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_OPTIONS_H_
