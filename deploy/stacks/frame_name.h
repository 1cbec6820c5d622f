#ifndef FARANDOLE_DEPLOY_STACKS_FRAME_NAME_H_
#define FARANDOLE_DEPLOY_STACKS_FRAME_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farandole::stacks {

// The name of a function for people: a C++ symbol demangled and without its parameters, any other as it is, cut to 256
// bytes. Pure.
std::string FrameName(const std::string& symbol);

// "ns::f(int, char) const" becomes "ns::f". Pure.
absl::string_view WithoutParameters(absl::string_view name);

}  // namespace farandole::stacks

#endif  // FARANDOLE_DEPLOY_STACKS_FRAME_NAME_H_
