#ifndef FARANDOLE_WEB_LOGGED_TEXT_H_
#define FARANDOLE_WEB_LOGGED_TEXT_H_

#include <string>

#include "farandole/v1/logged.pb.h"

namespace farandole {

// Numbers that a job's programs have logged, as programs read them; from the HTTP edge and from `farandole metrics`
// alike.

// {"series": [{"name", "rank" (of curves by rank), "first_step": [...], ...}], "dropped", "refused", "bound"}, with the
// columns of v1::LoggedSeries. A number that is not finite is null.
std::string LoggedJson(const v1::ListLoggedResponse& logged);
// A line for each point, after one with the columns' names (RFC 4180): name, rank (empty: the average), first_step,
// last_step, mean, least, greatest, count, at_unix_ms, epoch. Numbers that are not finite are nan, inf and -inf.
std::string LoggedCsv(const v1::ListLoggedResponse& logged);

// The shortest text that is read as this number again.
std::string ShortestText(double number);

}  // namespace farandole

#endif  // FARANDOLE_WEB_LOGGED_TEXT_H_
