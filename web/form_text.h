#ifndef FARANDOLE_WEB_FORM_TEXT_H_
#define FARANDOLE_WEB_FORM_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farandole {

// All values of `name` in a query, or in a form (application/x-www-form-urlencoded), "name=value&name=value", with
// their encoding undone.
std::vector<std::string> QueryValues(absl::string_view query, absl::string_view name);
// The first one; "" for none.
std::string QueryValue(absl::string_view query, absl::string_view name);

}  // namespace farandole

#endif  // FARANDOLE_WEB_FORM_TEXT_H_
