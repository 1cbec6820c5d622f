#ifndef FARANDOLE_SERVER_TESTING_HOSTILE_H_
#define FARANDOLE_SERVER_TESTING_HOSTILE_H_

#include <string>

#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace farandole {

// The coordinator to attack, and until when.
struct HostileTarget {
  // gRPC, HOST:PORT.
  std::string address;
  // "": no HTTP.
  std::string http;
  // The token of the attacking tenant; attacks that need no token go without.
  std::string token;
  absl::Time until;
};

// Does until then what a coordinator must bear, a thread for each: workers that do not read what they are sent,
// messages that are too large, connections and calls that are left half open, jobs and tensors with ever new names,
// wrong tokens. Returns how often each was done, and how it ended.
nlohmann::ordered_json BeHostile(const HostileTarget& target);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_TESTING_HOSTILE_H_
