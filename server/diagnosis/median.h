#ifndef FARANDOLE_SERVER_DIAGNOSIS_MEDIAN_H_
#define FARANDOLE_SERVER_DIAGNOSIS_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace farandole {

// The median. If there are two numbers in the middle, the greater one; 0 if there is no number.
inline double MedianOf(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  const auto middle = numbers.begin() + static_cast<int64_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

// The medians of numbers without one of them, as MedianOf has them, in less time than one by one.
class MediansBeside {
 public:
  explicit MediansBeside(std::vector<double> numbers) : sorted_(std::move(numbers)) {
    std::sort(sorted_.begin(), sorted_.end());
  }

  // `number` is one of them.
  double Without(double number) const {
    if (sorted_.size() < 2) return 0;
    const size_t middle = (sorted_.size() - 1) / 2;
    const auto place = std::lower_bound(sorted_.begin(), sorted_.end(), number) - sorted_.begin();
    return sorted_[middle < static_cast<size_t>(place) ? middle : middle + 1];
  }

 private:
  std::vector<double> sorted_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_MEDIAN_H_
