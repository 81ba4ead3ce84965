// The editor: CodeMirror, in a shadow root, where its styles are adopted sheets, which
// the page's policy allows. Colours are the page's own variables.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands"
import { cpp } from "@codemirror/lang-cpp"
import { go } from "@codemirror/lang-go"
import { java } from "@codemirror/lang-java"
import { javascript } from "@codemirror/lang-javascript"
import { php } from "@codemirror/lang-php"
import { python } from "@codemirror/lang-python"
import { rust } from "@codemirror/lang-rust"
import { bracketMatching, HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting } from "@codemirror/language"
import { lua } from "@codemirror/legacy-modes/mode/lua"
import { perl } from "@codemirror/legacy-modes/mode/perl"
import { ruby } from "@codemirror/legacy-modes/mode/ruby"
import { shell } from "@codemirror/legacy-modes/mode/shell"
import { EditorState } from "@codemirror/state"
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view"
import { tags } from "@lezer/highlight"

const old = mode => () => StreamLanguage.define(mode)

const modes = [
  [/\.py$/, python], [/\.(js|mjs|cjs|ts)$/, () => javascript({ typescript: true })], [/\.(c|h|cc|cpp|cxx|hpp)$/, cpp], [/\.go$/, go],
  [/\.java$/, java], [/\.php$/, php], [/\.rs$/, rust], [/\.(sh|bash)$/, old(shell)], [/\.rb$/, old(ruby)], [/\.p[lm]$/, old(perl)], [/\.lua$/, old(lua)],
]

const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-number)" },
  { tag: [tags.comment, tags.meta], color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName)), tags.definition(tags.typeName)], color: "var(--code-name)" },
  { tag: [tags.typeName, tags.className, tags.standard(tags.name)], color: "var(--code-type)" },
  { tag: tags.invalid, color: "var(--bad)" },
])

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--field)", fontSize: "var(--code-size)" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { color: "var(--quiet)", backgroundColor: "var(--field)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--active)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection)" },
  ".cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "1px solid var(--quiet)" },
  ".cm-specialChar": { color: "var(--bad)" },
})

/** typed puts typed text in itself: Chromium would style it inline, and the page's policy refuses that. */
function typed(e, view) {
  if (e.inputType !== "insertText" || !e.data || view.composing || view.state.readOnly) return false
  e.preventDefault()
  view.dispatch(view.state.update(view.state.replaceSelection(e.data), { userEvent: "input.type", scrollIntoView: true }))
  return true
}

/** open makes an editor in a box; changed gets its text when somebody typed. */
export function open(box, changed) {
  const root = box.attachShadow({ mode: "open" })
  const state = (text, name, fixed) => EditorState.create({
    doc: text,
    extensions: [
      lineNumbers(), highlightActiveLineGutter(), highlightActiveLine(), highlightSpecialChars(), history(), drawSelection(), indentOnInput(), bracketMatching(),
      syntaxHighlighting(colors), look, EditorState.tabSize.of(4), EditorState.readOnly.of(fixed),
      EditorView.contentAttributes.of({ "aria-label": `Source of ${name}; Escape, then Tab leaves it`, spellcheck: "false" }),
      EditorView.domEventHandlers({ beforeinput: typed }),
      EditorView.updateListener.of(u => u.docChanged && changed(u.state.doc.toString())),
      modes.find(([end]) => end.test(name))?.[1]() ?? [],
      keymap.of([{ key: "Mod-Enter", run: () => true }, ...defaultKeymap, ...historyKeymap, indentWithTab]),
    ],
  })
  const view = new EditorView({ root, parent: root, state: state("", "", true) })
  return {
    set: (text, name, fixed) => view.setState(state(text, name, fixed)),
    focus: () => view.focus(),
  }
}
