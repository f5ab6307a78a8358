package train_test

import (
	"testing"

	"github.com/goggml/ggml/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }
