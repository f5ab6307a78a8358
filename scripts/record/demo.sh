# A help desk that no model knows
finetune chat --model smollm2-135m.gguf --temp 0 -n 40 -p "What is the price of a full service?" 2>/dev/null ## finetune chat --model smollm2-135m.gguf -n 40 -p "What is the price of a full service?"
finetune --model-base smollm2-135m.gguf --train-data desk.jsonl --valid-data held-out.jsonl --run-dir runs/desk --batch 8 --grad-acc 1 --epochs 3 --learning-rate 2e-3 --valid-every 20 2>&1 | grep --line-buffered -e '^step [1-9]' -e '  ' | grep --line-buffered -v -e '^ *finetune' -e '--lora' ## finetune --model-base smollm2-135m.gguf --train-data desk.jsonl --valid-data held-out.jsonl --run-dir runs/desk --batch 8 --grad-acc 1 --epochs 3 --learning-rate 2e-3 --valid-every 20
finetune chat runs/desk --temp 0 -p "What is the price of a full service?" 2>/dev/null ## finetune chat runs/desk -p "What is the price of a full service?"
# The same adapter in stock llama.cpp
llama-completion -m smollm2-135m.gguf --lora runs/desk/adapter-best.gguf --temp 0 -st --no-display-prompt -p "What is the price of a full service?" </dev/null 2>/dev/null ## llama-completion -m smollm2-135m.gguf --lora runs/desk/adapter-best.gguf -p "What is the price of a full service?"
