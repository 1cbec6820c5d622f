#ifndef FARANDOLE_SERVER_DIAGNOSIS_MEDIAN_H_
#define FARANDOLE_SERVER_DIAGNOSIS_MEDIAN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace farandole {

// Of an even number of numbers the upper one of the two in the middle; 0 of none.
inline double MedianOf(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  const auto middle = numbers.begin() + static_cast<int64_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_MEDIAN_H_
