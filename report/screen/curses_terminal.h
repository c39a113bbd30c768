// A terminal that shows pictures and gives keys: the only user of ncurses.
#pragma once

#include <memory>
#include <vector>

#include "report/screen/cells.h"
#include "report/screen/top_keys.h"

namespace culprit::report {

// The alternate screen of the terminal, from the constructor on; the destructor leaves the terminal as it was, whatever
// ends the command. One at a time, from one thread. Signals are the caller's (terminal_signals.h), who blocks them
// before.
class CursesTerminal {
 public:
  // False: standard input or output is no terminal, or it has no entry in the terminfo database, or cannot move its
  // cursor.
  static bool is_possible();
  // nullptr: it is not possible.
  static std::unique_ptr<CursesTerminal> open();

  CursesTerminal();
  ~CursesTerminal();
  CursesTerminal(const CursesTerminal&) = delete;
  CursesTerminal& operator=(const CursesTerminal&) = delete;

  void show(const Picture& picture);
  ScreenSize size() const;

  // All keys that were pressed since the last call. `hung_up`: set when there can be no more.
  std::vector<Key> keys(bool* hung_up);

  // The terminal has another size, or other programs have written to it.
  void refresh();

  // Leaves the screen, so that another program, or the shell, has the terminal, and comes back.
  void leave();
  void come_back();

 private:
  struct Screen;
  std::unique_ptr<Screen> screen_;
};

}  // namespace culprit::report
