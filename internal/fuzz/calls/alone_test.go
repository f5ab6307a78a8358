//go:build linux && cgo

package calls

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/tokenizer"
)

// unchecked lists the types that belong to one goroutine and have no exclusive.Access, with the reason.
var unchecked = map[reflect.Type]string{
	reflect.TypeFor[chat.AnswerReader](): "its methods return text alone, and in order only if one goroutine calls them",
	reflect.TypeFor[infer.Adapters]():    "its calls hold the access of its session",
	reflect.TypeFor[infer.Encoding]():    "its calls hold the access of its session",
	reflect.TypeFor[infer.Sequence]():    "its calls hold the access of its session",
	reflect.TypeFor[tokenizer.Decoder](): "its methods return text alone, and in order only if one goroutine calls them",
}

// Types that belong to one goroutine report that several use them.
func TestAlone(t *testing.T) {
	access := reflect.TypeFor[exclusive.Access]()
	for of := range public.alone {
		f, found := of.FieldByName("access")
		found = found && (f.Type == access || f.Type == reflect.PointerTo(access))
		assert.Equal(t, unchecked[of] == "", found, "%v has an exclusive.Access, or is listed with the reason why not", of)
	}
}
