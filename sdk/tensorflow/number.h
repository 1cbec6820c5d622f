#ifndef FARANDOLE_SDK_TENSORFLOW_NUMBER_H_
#define FARANDOLE_SDK_TENSORFLOW_NUMBER_H_

#include <cstdint>

namespace farandole::tensorflow {

// Numbers of the worker, read when the program runs. kGroupRank is its position in the group, 0 where it is not in it.
enum Number {
  kRank,
  kSize,
  kLocalRank,
  kLocalSize,
  kCrossRank,
  kCrossSize,
  kGroupSize,
  kGroupIncludes,
  kGroupRank,
  kEpoch
};

// The number, of the group where it has one; or minus a code, of which NumberError says why.
int ReadNumber(int64_t which, int32_t group);
const char* NumberError();

}  // namespace farandole::tensorflow

#endif  // FARANDOLE_SDK_TENSORFLOW_NUMBER_H_
