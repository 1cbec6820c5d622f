#ifndef FARANDOLE_SERVER_IDENTITY_JSON_TEXT_H_
#define FARANDOLE_SERVER_IDENTITY_JSON_TEXT_H_

#include <string>

#include "nlohmann/json.hpp"

namespace farandole {

// The text that an issuer's object has for the key; "": there is none, it is no text, or this is no object.
inline std::string TextOf(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_JSON_TEXT_H_
