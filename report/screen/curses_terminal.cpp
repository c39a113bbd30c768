#include "report/screen/curses_terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <iterator>
#include <string_view>

#include "report/base/printable.h"
#include "report/base/terminal.h"
#include "report/base/text_width.h"

// These define macros with the names of common words: they come last, and the functions among them stay functions.
// clang-format off
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <term.h>
#undef columns
#undef lines
// clang-format on

namespace culprit::report {
namespace {

constexpr int kEscapeMilliseconds = 25;

// Numbers of colour pairs.
enum Pair : short { kRed = 1, kGreen, kYellow, kBlue, kCyan, kMagenta };

attr_t attributes_of(Style style) {
  switch (style) {
    case Style::kPlain:
      break;
    case Style::kTitle:
      return A_BOLD;
    case Style::kFaint:
      return A_DIM;
    case Style::kHeader:
      return A_BOLD | A_UNDERLINE;
    case Style::kSelected:
      return A_REVERSE;
    case Style::kBad:
    case Style::kWarn:
      return A_BOLD;
    default:
      break;
  }
  return A_NORMAL;
}

short pair_of(Style style) {
  switch (style) {
    case Style::kBad:
      return kRed;
    case Style::kGood:
      return kGreen;
    case Style::kWarn:
      return kYellow;
    case Style::kAllocated:
      return kCyan;
    case Style::kCached:
      return kBlue;
    case Style::kDriver:
      return kMagenta;
    case Style::kOthers:
      return kYellow;
    default:
      return 0;
  }
}

Key key_of(wint_t code, bool special) {
  if (!special) {
    if (code == '\r') return kKeyEnter;
    if (code == '\b') return kKeyBackspace;
    return static_cast<Key>(code);
  }
  switch (code) {
    case KEY_UP:
      return kKeyUp;
    case KEY_DOWN:
      return kKeyDown;
    case KEY_PPAGE:
      return kKeyPageUp;
    case KEY_NPAGE:
      return kKeyPageDown;
    case KEY_HOME:
      return kKeyHome;
    case KEY_END:
      return kKeyEnd;
    case KEY_ENTER:
      return kKeyEnter;
    case KEY_BACKSPACE:
    case KEY_DC:
      return kKeyBackspace;
    default:
      return 0;
  }
}

}  // namespace

struct CursesTerminal::Screen {
  SCREEN* screen = nullptr;
  std::string locale;  // of the characters, before
  bool utf8 = false;
  bool colours = false;
};

bool CursesTerminal::is_possible() {
  const char* const name = std::getenv("TERM");
  if (name == nullptr || name[0] == '\0' || std::string_view(name) == "dumb") return false;
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1) return false;
  // initscr() would end the process for a terminal that it does not know.
  int problem = 0;
  if (::setupterm(nullptr, STDOUT_FILENO, &problem) != OK) return false;
  const bool moves = ::tigetstr("cup") != nullptr && ::tigetstr("clear") != nullptr;
  ::del_curterm(::cur_term);
  return moves;
}

std::unique_ptr<CursesTerminal> CursesTerminal::open() {
  if (!is_possible()) return nullptr;
  auto terminal = std::make_unique<CursesTerminal>();
  return terminal->screen_->screen != nullptr ? std::move(terminal) : nullptr;
}

CursesTerminal::CursesTerminal() : screen_(std::make_unique<Screen>()) {
  const char* const before = std::setlocale(LC_CTYPE, nullptr);
  screen_->locale = before != nullptr ? before : "C";
  std::setlocale(LC_CTYPE, "");
  screen_->utf8 = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  // ncurses sets handlers of its own, which would end the process without its destructors.
  constexpr int kHandled[] = {SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
  struct sigaction actions[std::size(kHandled)] = {};
  for (std::size_t i = 0; i < std::size(kHandled); ++i) ::sigaction(kHandled[i], nullptr, &actions[i]);
  screen_->screen = ::newterm(nullptr, stdout, stdin);
  for (std::size_t i = 0; i < std::size(kHandled); ++i) ::sigaction(kHandled[i], &actions[i], nullptr);
  if (screen_->screen == nullptr) {
    std::setlocale(LC_CTYPE, screen_->locale.c_str());
    return;
  }
  ::cbreak();
  ::noecho();
  ::nonl();
  ::keypad(::stdscr, TRUE);
  ::nodelay(::stdscr, TRUE);
  ::set_escdelay(kEscapeMilliseconds);
  ::curs_set(0);
  if (wants_colours(STDOUT_FILENO) && ::has_colors() && ::start_color() == OK) {
    const short background = ::use_default_colors() == OK ? -1 : COLOR_BLACK;
    ::init_pair(kRed, COLOR_RED, background);
    ::init_pair(kGreen, COLOR_GREEN, background);
    ::init_pair(kYellow, COLOR_YELLOW, background);
    ::init_pair(kBlue, COLOR_BLUE, background);
    ::init_pair(kCyan, COLOR_CYAN, background);
    ::init_pair(kMagenta, COLOR_MAGENTA, background);
    screen_->colours = true;
  }
  refresh();
}

CursesTerminal::~CursesTerminal() {
  if (screen_->screen == nullptr) return;
  ::endwin();
  ::delscreen(screen_->screen);
  std::setlocale(LC_CTYPE, screen_->locale.c_str());
}

ScreenSize CursesTerminal::size() const { return {getmaxy(::stdscr), getmaxx(::stdscr)}; }

void CursesTerminal::show(const Picture& picture) {
  ::werase(::stdscr);
  const ScreenSize shown = size();
  for (int y = 0; y < shown.rows && static_cast<std::size_t>(y) < picture.lines.size(); ++y) {
    int x = 0;
    for (const Span& span : picture.lines[static_cast<std::size_t>(y)]) {
      const std::string text = screen_->utf8 ? printable(span.text) : in_ascii(printable(span.text));
      ::wattr_set(::stdscr, attributes_of(span.style), screen_->colours ? pair_of(span.style) : 0, nullptr);
      if (x < shown.columns) ::mvwaddnstr(::stdscr, y, x, text.c_str(), -1);
      x += static_cast<int>(columns_of(text));
    }
  }
  ::wattr_set(::stdscr, A_NORMAL, 0, nullptr);
  ::curs_set(picture.cursor >= 0 ? 1 : 0);
  if (picture.cursor >= 0) ::wmove(::stdscr, shown.rows - 1, picture.cursor);
  ::wrefresh(::stdscr);
}

std::vector<Key> CursesTerminal::keys(bool* hung_up) {
  std::vector<Key> pressed;
  while (true) {
    wint_t code = 0;
    const int got = ::wget_wch(::stdscr, &code);
    if (got == ERR) break;
    const Key key = key_of(code, got == KEY_CODE_YES);
    if (key != 0) pressed.push_back(key);
  }
  // A descriptor that can be read and has nothing is at its end.
  *hung_up = pressed.empty() && ::isatty(STDIN_FILENO) != 1;
  return pressed;
}

void CursesTerminal::refresh() {
  winsize now = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) == 0 && now.ws_row > 0 && now.ws_col > 0)
    ::resizeterm(now.ws_row, now.ws_col);
  ::clearok(::stdscr, TRUE);
}

void CursesTerminal::leave() { ::endwin(); }

void CursesTerminal::come_back() {
  ::reset_prog_mode();
  refresh();
  ::wrefresh(::stdscr);
}

}  // namespace culprit::report
