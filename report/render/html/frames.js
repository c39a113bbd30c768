// The frames of a page's data (report/render/html/page_frames.h): stacks are lists of their numbers.
"use strict";

culprit.Frames = class {
  constructor(data) {
    this.program = ""; // the path of the executable; its frames need no module beside them
    this.frames = data.frames.map(([name, file, line, module, offset, flags, plumbing], number) => ({
      number,
      name: data.strings[name],
      file: data.strings[file],
      line,
      module: data.strings[module],
      offset,
      inlined: (flags & 1) !== 0,
      python: (flags & 2) !== 0,
      approximate: (flags & 4) !== 0,
      plumbing: data.strings[plumbing], // the library whose glue code this is, else empty
    }));
    this.found = new Map(); // by word, see framesWith()
    this.sources = new Map((data.sources || []).map((source) => [data.strings[source.file], source]));
  }

  // undefined for undefined.
  frame(number) {
    return this.frames[number];
  }

  stack(numbers) {
    return numbers.map((number) => this.frames[number]);
  }

  // For a word in lower case: an array that has 1 for each frame whose name, place or module has the word. A page has
  // far fewer frames than stacks: a search looks into each frame once, and then compares numbers only.
  framesWith(word) {
    if (this.frameTexts === undefined) {
      this.frameTexts = this.frames.map((frame) =>
        [frame.name, culprit.Frames.place(frame), frame.module].join("\n").toLowerCase());
    }
    let found = this.found.get(word);
    if (found === undefined) {
      found = Uint8Array.from(this.frameTexts, (text) => (text.includes(word) ? 1 : 0));
      if (this.found.size > 50) this.found.clear();
      this.found.set(word, found);
    }
    return found;
  }

  // A function that tells whether an item has all words, in text(item) or in a frame of stacks(item).
  finder(words, text, stacks) {
    const found = words.map((word) => [word, this.framesWith(word)]);
    return (item) => found.every(([word, frames]) =>
      stacks(item).some((stack) => stack.some((number) => frames[number] === 1)) || text(item).includes(word));
  }

  // The text for the place of a frame: "solver.cu:31".
  static place(frame) {
    if (!frame) return "";
    if (frame.file) return culprit.baseName(frame.file) + (frame.line ? ":" + frame.line : "");
    return culprit.baseName(frame.module);
  }

  // The lines around a place: [{number, text, here}], and whether the file was changed since; null when not available.
  source(frame) {
    const source = frame && frame.line ? this.sources.get(frame.file) : undefined;
    if (!source) return null;
    const block = source.blocks.find((one) => frame.line >= one.first && frame.line < one.first + one.lines.length);
    if (!block) return null;
    const around = 4;
    const from = Math.max(block.first, frame.line - around);
    const to = Math.min(block.first + block.lines.length - 1, frame.line + around);
    const lines = [];
    for (let number = from; number <= to; number += 1)
      lines.push({ number, text: block.lines[number - block.first], here: number === frame.line });
    return { lines, changed: source.changed };
  }
};
