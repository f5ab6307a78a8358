"""What transformers and PEFT compute, for the tests of adapters in this folder.

    python reference.py

Each line of standard input is a command in JSON, and is answered with a line: {"Result": …} or {"Error": …}. The model
is that of the last "load": a class of transformers, the arguments of its configuration, and a safetensors file with the
tensors of a GGUF file by their names there.
"""

import json
import math
import re
import sys
import time
import traceback
import warnings

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers.activations import GELUTanh, NewGELUActivation
from transformers.utils.chat_template_utils import render_jinja_template

# GGUF's names of a layer's tensors, and transformers' names.
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_up_proj",
    "ffn_up_exps": "mlp.experts.gate_up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}
BARE = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "attn_sinks", "ssm_a", "ssm_d", "ssm_dt"}  # parameters without a module
OTHER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
# Special settings of architectures.
SPECIAL = {
    "gemma2": {"ffn_norm": "pre_feedforward_layernorm"},
    "gemma3": {"ffn_norm": "pre_feedforward_layernorm"},
    "gemma4": {
        "ffn_norm": "pre_feedforward_layernorm",
        "inp_gate": "per_layer_input_gate",
        "proj": "per_layer_projection",
        "post_norm": "post_per_layer_input_norm",
        "per_layer_token_embd": "model.embed_tokens_per_layer",
        "per_layer_model_proj": "model.per_layer_model_projection",
        "per_layer_proj_norm": "model.per_layer_projection_norm",
    },
    "glm4": {
        "post_attention_norm": "post_self_attn_layernorm",
        "post_ffw_norm": "post_mlp_layernorm",
        "ffn_up": "mlp.gate_up_proj",
    },
    "gpt-oss": {
        "attn_sinks": "self_attn.sinks",
        "ffn_gate_inp": "mlp.router",
    },
    "gptj": {
        "token_embd": "transformer.wte",
        "output_norm": "transformer.ln_f",
        "attn_norm": "ln_1",
        "attn_q": "attn.q_proj",
        "attn_k": "attn.k_proj",
        "attn_v": "attn.v_proj",
        "attn_output": "attn.out_proj",
        "ffn_up": "mlp.fc_in",
        "ffn_down": "mlp.fc_out",
    },
    "granitehybrid": {
        "ffn_up": "shared_mlp.input_linear",
        "ffn_down": "shared_mlp.output_linear",
        "ssm_in": "mamba.in_proj",
        "ssm_conv1d": "mamba.conv1d",
        "ssm_dt": "mamba.dt",
        "ssm_a": "mamba.A_log",
        "ssm_d": "mamba.D",
        "ssm_norm": "mamba.norm",
        "ssm_out": "mamba.out_proj",
    },
    "lfm2": {
        "token_embd_norm": "model.embedding_norm",
        "attn_norm": "operator_norm",
        "attn_q_norm": "self_attn.q_layernorm",
        "attn_k_norm": "self_attn.k_layernorm",
        "attn_output": "self_attn.out_proj",
        "shortconv.in_proj": "conv.in_proj",
        "shortconv.conv": "conv.conv",
        "shortconv.out_proj": "conv.out_proj",
        "ffn_norm": "ffn_norm",
        "ffn_gate": "feed_forward.w1",
        "ffn_up": "feed_forward.w3",
        "ffn_down": "feed_forward.w2",
    },
    "minicpm3": {
        "attn_q_a": "self_attn.q_a_proj",
        "attn_q_a_norm": "self_attn.q_a_layernorm",
        "attn_q_b": "self_attn.q_b_proj",
        "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
        "attn_kv_a_norm": "self_attn.kv_a_layernorm",
        "attn_kv_b": "self_attn.kv_b_proj",
    },
    "phi2": {
        "output_norm": "model.final_layernorm",
        "attn_output": "self_attn.dense",
        "ffn_up": "mlp.fc1",
        "ffn_down": "mlp.fc2",
    },
    "phi3": {"ffn_up": "mlp.gate_up_proj"},
    "qwen35": {
        "attn_qkv": "linear_attn.in_proj_qkv",
        "attn_gate": "linear_attn.in_proj_z",
        "ssm_beta": "linear_attn.in_proj_b",
        "ssm_alpha": "linear_attn.in_proj_a",
        "ssm_a": "linear_attn.A_log",
        "ssm_dt": "linear_attn.dt",
        "ssm_conv1d": "linear_attn.conv1d",
        "ssm_norm": "linear_attn.norm",
        "ssm_out": "linear_attn.out_proj",
    },
    "starcoder2": {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
}
LAYERS = {"gptj": "transformer.h"}
INTERLEAVED = {"llama", "mistral3", "granite", "granitehybrid", "olmo", "smollm3"}  # GGUF rotates neighbours, transformers halves


def name_of(arch, tensor):
    """transformers' name of a GGUF tensor."""
    name, kind = (tensor, "weight") if tensor.endswith((".ssm_a", ".ssm_d")) else tensor.rsplit(".", 1)
    names = LAYER | OTHER | SPECIAL.get(arch, {})
    if found := re.fullmatch(r"blk\.(\d+)\.([\w.]+)", name):
        path = f"{LAYERS.get(arch, 'model.layers')}.{found[1]}.{names[found[2]]}"
        if found[2] not in BARE:
            return f"{path}.{kind}"
        return path if kind == "weight" else f"{path}_{kind}"
    return f"{names[name]}.{kind}"


def halves(rows, heads):
    """Rows for pairs of halves, of those for pairs of neighbours."""
    size = rows.shape[0] // heads
    return rows.reshape(heads, size // 2, 2, -1).transpose(1, 2).reshape(rows.shape)


def by_group(rows, config):
    """Rows of heads that share keys one after the other, of those for the first of each group, then the second of each."""
    groups = config.linear_num_key_heads
    return rows.unflatten(0, (config.linear_num_value_heads // groups, groups, -1)).transpose(0, 1).flatten(0, 2)


def delta_values(tensor, values, config):
    """The values of a tensor of a layer of the gated delta rule."""
    kind = (tensor + "..").split(".")[2]
    if kind in ("attn_qkv", "ssm_conv1d"):
        keys = 2 * config.linear_num_key_heads * config.linear_key_head_dim
        values = torch.cat([values[:keys], by_group(values[keys:], config)])
        return values.unsqueeze(1) if kind == "ssm_conv1d" else values
    if kind == "ssm_out":
        return by_group(values.T, config).T
    if kind == "ssm_a":
        return by_group((-values).log(), config)
    return by_group(values, config) if kind in ("attn_gate", "ssm_beta", "ssm_alpha", "ssm_dt") else values


def values_of(arch, tensor, values, config):
    """The values of a GGUF tensor as transformers has them."""
    if arch == "qwen35" and "norm" in tensor and "ssm" not in tensor:
        return values - 1  # transformers adds it
    if arch == "qwen35":
        return delta_values(tensor, values, config)
    if "conv1d.weight" in tensor or "shortconv.conv" in tensor:
        return values.unsqueeze(1)
    if tensor.endswith(".ssm_a"):
        return (-values).log().flatten()
    if tensor.endswith((".ssm_d", ".ssm_norm.weight")):
        return values.flatten()
    if arch in ("gemma2", "gemma3") and "norm" in tensor:
        return values - 1  # transformers adds it
    if arch == "gpt-oss" and "_exps.weight" in tensor:
        return values.transpose(1, 2)
    if arch in INTERLEAVED and ".attn_q." in tensor:
        return halves(values, config.num_attention_heads)
    if arch in INTERLEAVED and ".attn_k." in tensor:
        return halves(values, config.num_key_value_heads)
    return values


class TableGELU(torch.nn.Module):
    """GELU as ggml's CPU backend looks it up: a table of F16 by F16."""

    def forward(self, x):
        y = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().float()
        return torch.where(x <= -10, torch.zeros_like(x), torch.where(x >= 10, x, y))


class Session:
    def load(self, Arch, Class, Config, Arguments, Weights):
        torch.manual_seed(0)
        config = getattr(transformers, Config)(**Arguments, use_cache=False, attn_implementation="eager")
        self.make = lambda: self.filled(getattr(transformers, Class)(config), Arch, Weights, config)
        self.base = self.make()
        if Arch == "qwen35":  # llama.cpp takes the epsilon of the norms, transformers a constant that equals it in published models
            module = sys.modules[type(self.base).__module__]
            l2norm = module.l2norm
            module.l2norm = lambda x, dim=-1, eps=None: l2norm(x, dim, config.rms_norm_eps)
        return [name for name, module in self.base.named_modules() if getattr(getattr(module, "weight", None), "ndim", 0) == 2]

    @staticmethod
    def filled(model, arch, weights, config):
        parameters = dict(model.named_parameters())
        tensors = load_file(weights)
        for tensor in list(tensors):
            if "ffn_gate_exps" in tensor or arch == "granitehybrid" and "ffn_gate" in tensor:  # one parameter with up
                up = tensor.replace("gate", "up")
                both = [tensors.pop(tensor), tensors[up]]
                tensors[up] = torch.stack(both, dim=2).flatten(1, 2) if arch == "gpt-oss" else torch.cat(both, dim=-2)
        with torch.no_grad():
            for tensor, values in tensors.items():
                parameters.pop(name_of(arch, tensor)).copy_(values_of(arch, tensor, values, config))
            for name in list(parameters):
                if name.endswith(".bias"):  # absent in the GGUF file
                    parameters.pop(name).zero_()
        if parameters:
            raise ValueError(f"the file has no values for {sorted(parameters)}")
        for layer in getattr(model.base_model, "h" if arch in LAYERS else "layers"):
            for parent in list(layer.modules()):
                for name, module in list(parent.named_children()):
                    if isinstance(module, (GELUTanh, NewGELUActivation)):
                        setattr(parent, name, TableGELU())
        return model.eval()

    def adapted(self, folder):
        return PeftModel.from_pretrained(self.make(), folder, is_trainable=True)

    def logits(self, Adapter, Tokens, Out):
        model = self.adapted(Adapter).eval() if Adapter else self.base
        with torch.no_grad():
            save_file({"logits": model(input_ids=torch.tensor([Tokens])).logits[0].float().contiguous()}, Out)

    def trained(self, Class, Config, Arguments, Adapter):
        """The sums of squares of an adapter's tensors by their names, in a model that PEFT puts it on."""
        model = getattr(transformers, Class)(getattr(transformers, Config)(**Arguments))
        model = PeftModel.from_pretrained(model, Adapter, is_trainable=True)
        return {name: p.square().sum().item() for name, p in model.named_parameters() if p.requires_grad}

    def create(self, Adapter, Arguments, Seed, Type):
        """An adapter of PEFT's own with random factors."""
        torch.manual_seed(Seed)
        model = get_peft_model(self.make(), LoraConfig(task_type="CAUSAL_LM", **Arguments))
        with torch.no_grad():
            for name, p in model.named_parameters():
                if ".lora_" in name:
                    p.copy_(torch.randn_like(p) * 0.1)
                    p.data = p.data.to(getattr(torch, Type))
        model.save_pretrained(Adapter)

    def resave(self, Adapter, Out):
        self.adapted(Adapter).save_pretrained(Out)

    def generate(self, Adapter, Prompts, Length):
        """The likeliest tokens after each prompt."""
        model, answers = self.adapted(Adapter).eval(), []
        with torch.no_grad():
            for prompt in Prompts:
                tokens = list(prompt)
                for _ in range(Length):
                    tokens.append(model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax().item())
                answers.append(tokens[len(prompt):])
        return answers

    def render(self, Template, Messages, Tools, Tokens):
        """A conversation as the chat template writes it; "" where it cannot, as with lists of parts."""
        try:
            return render_jinja_template([Messages], tools=Tools, chat_template=Template, **Tokens)[0][0]
        except TypeError:
            return ""

    def train(self, Adapter, Out, Batches, Labels, Peak, Floor, Beta1, Beta2, Epsilon, Decay, Clip):
        """The losses of batches of inputs and labels of one length; a label of -100 is not trained."""
        model = self.adapted(Adapter)
        model.train()
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=Peak, betas=(Beta1, Beta2), eps=Epsilon, weight_decay=Decay)
        losses = []
        for step, (batch, labels) in enumerate(zip(Batches, Labels)):
            for group in optimizer.param_groups:
                group["lr"] = Floor + (Peak - Floor) * (1 + math.cos(math.pi * step / len(Batches))) / 2
            logits = model(input_ids=torch.tensor(batch)).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), torch.tensor(labels).flatten(), ignore_index=-100)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, Clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
        model.save_pretrained(Out)
        return losses

    def prefer(self, Adapter, Trainer, Settings, Batches, Peak, Beta1, Beta2, Epsilon, Clip):
        """The losses, rewards and times of batches by a trainer of TRL; the reference is the adapter before training."""
        trainer = preference_trainer(Trainer, self.adapted(Adapter), Settings)
        model = trainer.model.train()
        trained = [p for name, p in model.named_parameters() if p.requires_grad and ".ref." not in name]
        optimizer = torch.optim.AdamW(trained, lr=Peak, betas=(Beta1, Beta2), eps=Epsilon, weight_decay=0)
        steps = []
        for examples in Batches:
            start = time.perf_counter()
            if Trainer in ("DPO", "KTO"):
                trainer._metrics["train"].clear()
                loss = trainer._compute_loss(model, trainer.data_collator(examples), False)
                metrics = {name: values[-1] for name, values in trainer._metrics["train"].items()}
            else:
                loss, metrics = trainer.get_batch_loss_metrics(model, sides(examples))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, Clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            steps.append({
                "Loss": loss.item(), "Chosen": metrics.get("rewards/chosen"), "Rejected": metrics.get("rewards/rejected"), "KL": metrics.get("kl"),
                "Seconds": time.perf_counter() - start,
            })
        return steps

    def diverge(self, Student, Teacher, Labels, K, Beta, Temperature):
        """The divergence of each row of logits by TRL's GKD trainer, and the gradient of their sum. Of fewer labels than the
        vocabulary has, all others count as one: its logit is the logarithm of the sum of their exponentials."""
        from trl.experimental.gkd import GKDTrainer

        student = torch.tensor(Student, dtype=torch.float64, requires_grad=True)
        teacher = torch.tensor(Teacher, dtype=torch.float64)

        def terms(logits):
            logits = logits / Temperature
            if K == logits.shape[-1]:
                return logits
            own = torch.tensor(Labels).reshape(-1, K)
            others = logits.scatter(-1, own, -math.inf).logsumexp(-1, keepdim=True)
            return torch.cat([logits.gather(-1, own), others], -1)

        losses = GKDTrainer.generalized_jsd_loss(terms(student), terms(teacher), beta=Beta, reduction="none").sum(-1)
        losses.sum().backward()
        return {"Losses": losses.tolist(), "Gradient": student.grad.flatten().tolist()}


def preference_trainer(name, model, settings):
    """A trainer of TRL that is given tokens instead of texts."""
    import datasets
    import trl
    from tokenizers import Tokenizer, models
    from trl.experimental import cpo, orpo

    classes = {
        "DPO": (trl.DPOTrainer, trl.DPOConfig),
        "KTO": (trl.KTOTrainer, trl.KTOConfig),
        "CPO": (cpo.CPOTrainer, cpo.CPOConfig),
        "ORPO": (orpo.ORPOTrainer, orpo.ORPOConfig),
    }
    base, config = classes[name]
    words = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "a": 2, "b": 3}, unk_token="<pad>"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", bos_token="<eos>")
    given = type(name, (base,), {"_prepare_dataset": lambda self, dataset, *args, **kwargs: dataset})
    row = {"prompt": "a", "chosen": "a", "rejected": "b", "completion": "a", "label": True}
    arguments = config(
        output_dir="unused", use_cpu=True, bf16=False, report_to="none", gradient_checkpointing=False, per_device_train_batch_size=2,
        remove_unused_columns=False, **settings,
    )
    return given(model=model, args=arguments, train_dataset=datasets.Dataset.from_list([row, row]), processing_class=tokenizer)


def sides(examples):
    """A batch as CPO's and ORPO's trainers read it."""
    batch = {}
    for side in ("chosen", "rejected"):
        rows = [e["prompt_ids"] + e[side + "_ids"] for e in examples]
        longest = max(map(len, rows))
        pad = lambda values, of: torch.tensor([list(v) + [of] * (longest - len(v)) for v in values])
        batch[side + "_input_ids"] = pad(rows, 0)
        batch[side + "_attention_mask"] = pad([[1] * len(r) for r in rows], 0)
        batch[side + "_labels"] = pad([[-100] * len(e["prompt_ids"]) + e[side + "_ids"] for e in examples], -100)
    return batch


def main():
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    session = Session()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"Result": getattr(session, command.pop("Do"))(**command)}
        except Exception:
            answer = {"Error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


main()
