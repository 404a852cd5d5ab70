// How large a terminal's text is. Worked out before xterm is told: each text that it is told makes it draw all glyphs anew.

/** A letter of some size, in CSS pixels. */
export interface Letter {
  width: number;
  height: number;
}

/** How cells become pixels. */
export interface Grain {
  /** Device pixels for each CSS pixel. */
  ratio: number;
  /** By the graphics card each cell takes whole device pixels; as text of the page only each row does. */
  whole: boolean;
}

/** What xterm is told. Its line height is a multiple of the font's own, which differs between fonts. */
export interface TextLook {
  fontSize: number;
  lineHeight: number;
  letterSpacing: number;
}

/** Text of this size in rows of so many CSS pixels. */
export function textLook(fontSize: number, row: number, letter: Letter, grain: Grain): TextLook {
  // A width is rounded down to whole pixels: letters would stand too close
  const close = grain.whole && (letter.width * grain.ratio) % 1 >= 0.5;
  return { fontSize, lineHeight: Math.max(1, row / letter.height), letterSpacing: close ? 1 : 0 };
}

/** CSS pixels of all cells, as xterm's renderers count them. */
export function extent(look: TextLook, letter: Letter, cols: number, rows: number, grain: Grain): Letter {
  const { ratio, whole } = grain;
  const dots = letter.width * ratio;
  const width = (whole ? Math.floor(dots) : dots) + look.letterSpacing;
  const height = Math.floor(Math.ceil(letter.height * ratio) * look.lineHeight);
  return { width: Math.round((cols * width) / ratio), height: Math.round((rows * height) / ratio) };
}
