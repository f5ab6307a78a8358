package train_test

import (
	"testing"

	"github.com/goggml/ggml/internal/test/optest"
)

func TestMain(m *testing.M) { optest.Main(m) }
