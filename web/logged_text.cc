#include "web/logged_text.h"

#include <charconv>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

template <typename Column>
Json ColumnJson(const Column& column) {
  Json json = Json::array();
  for (const auto value : column) json.push_back(value);
  return json;
}

// A cell of CSV. A program chooses the text: one that a spreadsheet would take for a formula gets an apostrophe.
std::string Quoted(const std::string& text) {
  const bool is_formula = !text.empty() && std::strchr("=+-@\t\r", text[0]) != nullptr;
  return absl::StrCat("\"", is_formula ? "'" : "", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

std::string ShortestText(double number) {
  char text[32];
  const std::to_chars_result result = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, result.ptr);
}

std::string LoggedJson(const v1::ListLoggedResponse& logged) {
  Json json;
  json["series"] = Json::array();
  for (const v1::LoggedSeries& series : logged.series()) {
    Json one;
    one["name"] = series.name();
    if (series.has_rank()) one["rank"] = series.rank();
    one["first_step"] = ColumnJson(series.first_step());
    one["last_step"] = ColumnJson(series.last_step());
    one["mean"] = ColumnJson(series.mean());
    one["least"] = ColumnJson(series.least());
    one["greatest"] = ColumnJson(series.greatest());
    one["count"] = ColumnJson(series.count());
    one["at_unix_ms"] = ColumnJson(series.at_unix_ms());
    one["epoch"] = ColumnJson(series.epoch());
    json["series"].push_back(std::move(one));
  }
  json["dropped"] = logged.dropped();
  json["refused"] = logged.refused();
  json["bound"] = logged.bound();
  return ShowJson(json, -1) + "\n";
}

std::string LoggedCsv(const v1::ListLoggedResponse& logged) {
  std::string csv = "name,rank,first_step,last_step,mean,least,greatest,count,at_unix_ms,epoch\r\n";
  for (const v1::LoggedSeries& series : logged.series()) {
    const std::string begin =
        absl::StrCat(Quoted(series.name()), ",", series.has_rank() ? absl::StrCat(series.rank()) : "", ",");
    for (int i = 0; i < series.first_step_size(); ++i) {
      absl::StrAppend(&csv, begin, series.first_step(i), ",", series.last_step(i), ",", ShortestText(series.mean(i)),
                      ",", ShortestText(series.least(i)), ",", ShortestText(series.greatest(i)));
      absl::StrAppend(&csv, ",", series.count(i), ",", series.at_unix_ms(i), ",", series.epoch(i), "\r\n");
    }
  }
  return csv;
}

}  // namespace farandole
