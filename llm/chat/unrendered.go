package chat

import (
	"slices"
	"strings"
	"unicode"

	"github.com/goggml/ggml/internal/jinja"
)

// maxTags allows for missing tags: a template that separates reasoning from content writes its own tags.
const maxTags = 24

// Unrendered lists the parts of the conversation from which the text contains no byte: first tools, documents and
// messages in order, then other keys of messages, then contents rendered only in part. White space does not count, nor
// do keys that change the text without appearing in it.
func (r *Rendered) Unrendered() []Given {
	var out, keys []Given
	for _, u := range r.given {
		switch {
		case !u.words:
		case u.seen > 0:
			if u.Cut = u.Source == Content && u.seen+maxTags < u.size; u.Cut {
				out = append(out, u.Given)
			}
		case u.isKey():
			keys = append(keys, u.Given)
		default:
			out = append(out, u.Given)
		}
	}
	return append(out, r.unusedOf(keys)...)
}

// unusedOf returns the keys whose removal leaves the text unchanged. It bisects the list, so that it renders a
// conversation only a few times if few of many keys change the text.
func (r *Rendered) unusedOf(keys []Given) []Given {
	switch {
	case len(keys) == 0 || r.isSameWithout(keys):
		return keys
	case len(keys) == 1:
		return nil
	}
	half := len(keys) / 2
	return slices.Concat(r.unusedOf(keys[:half]), r.unusedOf(keys[half:]))
}

// isKey reports whether the unit is a key that templates may read without writing it, and whose value need not be a
// text.
func (u *unit) isKey() bool { return u.Message >= 0 && (u.Source == Field || u.Source == Role) }

// isSameWithout reports whether removing keys of messages leaves the text unchanged.
func (r *Rendered) isSameWithout(keys []Given) bool {
	c := *r.conversation
	c.Messages = slices.Clone(c.Messages)
	names := map[int][]string{} // of each message
	for _, key := range keys {
		names[key.Message] = append(names[key.Message], key.Path)
	}
	for i := range names {
		m := &c.Messages[i]
		m.fields = m.fields.Clone()
		m.fields.Delete(names[i]...)
	}
	without, err := r.template.Render(&c, r.options)
	return err == nil && without.Text == r.Text
}

// countWords counts the characters other than white space.
func countWords(s string) int {
	n := 0
	for _, r := range s {
		if !jinja.IsSpace(r) {
			n++
		}
	}
	return n
}

// isUnseen reports whether a character is invisible: white space, a format character (Cf) or a control character (Cc).
func isUnseen(r rune) bool { return jinja.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Cc) }

// hasWords reports whether v is a number, a boolean or a text other than white space, or contains one.
func hasWords(v jinja.Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case jinja.Text:
		return strings.TrimFunc(v.String(), isUnseen) != ""
	case *jinja.Sequence:
		for _, item := range v.Items {
			if hasWords(item) {
				return true
			}
		}
	case *jinja.Dict:
		return v.Len() > 0
	default:
		return true
	}
	return false
}
