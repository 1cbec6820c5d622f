#ifndef FARANDOLE_SDK_CPP_FARANDOLE_SECTION_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_SECTION_H_

#include <cstdint>
#include <string>
#include <utility>

#include "farandole/job.h"
#include "farandole/library.h"
#include "farandole/status.h"

namespace farandole {
inline namespace sdk {

/// A section of the program, to the end of this object or to End: `const Section data(job, "data");`. The diagnosis
/// says in which of them a slow rank loses its time (docs/diagnosis.md). Time counts for the section that began last in
/// the process, on any thread, less the waits in the library. Names have 1 to 64 bytes; those beyond the 15th count
/// together. Moves, and is not copied. The job outlives it.
class Section {
 public:
  Section(const Job& job, const std::string& name)
      : functions_(&job.functions()), number_(functions_->section_begin(name.c_str())) {
    if (number_ < 0) status_ = StatusOf(*functions_, static_cast<int>(-number_));
  }
  Section(Section&& other) noexcept
      : functions_(other.functions_), number_(std::exchange(other.number_, 0)), status_(std::move(other.status_)) {}
  Section& operator=(Section&&) = delete;
  ~Section() { End(); }

  /// INVALID_ARGUMENT: the name cannot be one, and the section does not count.
  const Status& status() const { return status_; }
  void End() { functions_->section_end(std::exchange(number_, 0)); }

 private:
  const Functions* functions_;
  int64_t number_;
  Status status_;
};

}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_SECTION_H_
