package train_test

import (
	"testing"

	"github.com/goggml/ggml/internal/optest"
)

func TestMain(m *testing.M) { optest.Main(m) }
