#ifndef FARANDOLE_DEPLOY_DOCTOR_FINDING_H_
#define FARANDOLE_DEPLOY_DOCTOR_FINDING_H_

#include <string>
#include <utility>
#include <vector>

namespace farandole::doctor {

// One thing that `farandole doctor` has looked at.
struct Finding {
  // kWarn: something will be slower, or cannot be used; kFail: no job can run.
  enum class Level { kOk, kWarn, kFail };

  Level level = Level::kOk;
  // "shm", "limits".
  std::string subject;
  // The finding; no line's end in it.
  std::string text;
  // The remedy; "" if all is well.
  std::string advice;
};

using Findings = std::vector<Finding>;

inline Finding Ok(std::string subject, std::string text) {
  return {Finding::Level::kOk, std::move(subject), std::move(text), ""};
}
inline Finding Warn(std::string subject, std::string text, std::string advice) {
  return {Finding::Level::kWarn, std::move(subject), std::move(text), std::move(advice)};
}
inline Finding Fail(std::string subject, std::string text, std::string advice) {
  return {Finding::Level::kFail, std::move(subject), std::move(text), std::move(advice)};
}

}  // namespace farandole::doctor

#endif  // FARANDOLE_DEPLOY_DOCTOR_FINDING_H_
