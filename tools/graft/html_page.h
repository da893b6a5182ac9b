// SPDX-License-Identifier: Apache-2.0
// What the pages of commands have in common (`graft inspect --html`, `graft compile --html`): one file that needs
// nothing beside itself; the only script sorts tables.
#pragma once

#include <initializer_list>
#include <string>

namespace graft {

/// A page. `body` is HTML; `script` is more of it for this page.
std::string html_page(const std::string& title, const std::string& body, const char* script = "");
/// A heading, a sentence below it, and what it is about; nothing where that is empty.
std::string html_section(const char* title, const std::string& hint, const std::string& inside);
/// A table that is sorted by a click; `headings` are its columns, those of numbers with a `#` in front.
std::string html_table(const char* id, std::initializer_list<std::string> headings, const std::string& rows);
/// A cell of a number: sorted by the value, which is not known where it is negative.
std::string number_cell(double value, const std::string& shown);

}  // namespace graft
