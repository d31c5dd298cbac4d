"""Small random models of Hugging Face transformers with the kernels, on the CPU: python -m unittest
tests.test_transformers, in python/. Skipped without transformers, which only these tests need.

Needs PyTorch, and the programs of the chapters in build/sim. The same weights in float32 with transformers'
own attention are the reference; in float16, the kernels may be about as far from it as that attention is.
"""

from __future__ import annotations

import importlib.util
import unittest
from unittest import mock

import torch

from .test_operators import OnDevice

INSTALLED = importlib.util.find_spec("transformers") is not None
if INSTALLED:
    import fa_tutorial.transformers
    import transformers

WORDS = 61
SIZES = {"vocab_size": WORDS, "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = SIZES | {
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 96,
    "max_position_embeddings": 128,
    "initializer_range": 0.15,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": None,
}
WINDOW = 12
MODELS = {
    "Llama": DECODER,
    "Qwen3": DECODER,
    "Gemma2": DECODER
    | {"sliding_window": WINDOW, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 64},
    "GptOss": DECODER
    | {
        "sliding_window": WINDOW,
        "num_local_experts": 2,
        "num_experts_per_tok": 2,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "GPT2": {
        "vocab_size": WORDS,
        "n_embd": 128,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 128,
        "initializer_range": 0.1,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": None,
    },
    "Bert": SIZES
    | {
        "intermediate_size": 96,
        "max_position_embeddings": 128,
        "initializer_range": 0.1,
        "layer_norm_eps": 1e-5,  # its default makes NaN of zeros in float16 on the CPU
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
}


@unittest.skipUnless(INSTALLED, "transformers is not installed")
class Models(OnDevice):
    dtype = torch.float16

    def setUp(self):
        fa_tutorial.transformers.register()

    def models(self, name: str) -> list:
        """The same model three times: in float32 the reference, in 16 bits with its own attention and with
        the kernels.
        """
        kind = {"GPT2": "GPT2LMHeadModel", "Bert": "BertForMaskedLM"}.get(name, f"{name}ForCausalLM")
        found = []
        for dtype, attention in (
            (torch.float32, "eager"),
            (self.dtype, "eager"),
            (self.dtype, "fa_tutorial"),
        ):
            torch.manual_seed(3)
            config = getattr(transformers, f"{name}Config")(**MODELS[name])
            model = getattr(transformers, kind)._from_config(config, attn_implementation=attention)
            if name == "GptOss":
                for layer in model.model.layers:
                    torch.nn.init.normal_(layer.self_attn.sinks, std=2.0)
                model.set_experts_implementation("eager")
            model.to(self.dtype)  # the same rounded weights for all
            found.append(model.to(self.device, dtype).eval())
        return found

    def batch(self, padding: str | None):
        """Tokens, the mask and labels of three sequences. @param padding  "left", "right" or None"""
        torch.manual_seed(1)
        tokens = torch.randint(1, WORDS, (3, 30))
        mask = torch.ones_like(tokens)
        if padding:
            for row, length in enumerate((30, 11, 21)):
                empty = slice(length, None) if padding == "right" else slice(None, 30 - length)
                mask[row, empty] = 0
        tokens = tokens * mask
        labels = tokens.masked_fill(mask == 0, -100)
        labels[:, 1:].masked_fill_(mask[:, :-1] == 0, -100)  # what padding would predict
        return [x.to(self.device) for x in (tokens, mask, labels)]

    def results(self, model, padding: str | None) -> dict[str, torch.Tensor]:
        """Logits, the loss and the gradients of all parameters."""
        tokens, mask, labels = self.batch(padding)
        given = {"attention_mask": mask} if padding else {}
        out = model(tokens, labels=labels, **given)
        named = dict(model.named_parameters())
        gradients = torch.autograd.grad(out.loss, list(named.values()), allow_unused=True)
        found = {name: x for name, x in zip(named, gradients, strict=True) if x is not None}
        found |= {"logits": out.logits[mask.bool()], "loss": out.loss}
        return {name: x.detach().float() for name, x in found.items()}

    def compare(self, name: str, paddings=(None, "left", "right")):
        models = self.models(name)
        for padding in paddings:
            right, own, ours = (self.results(model, padding) for model in models)
            self.is_close(name, padding, right, own, ours)

    def is_close(self, name: str, padding: str | None, right: dict, own: dict, ours: dict):
        self.assertEqual(ours.keys(), right.keys())
        largest = max(float(x.norm()) for x in right.values())
        for what, expected in right.items():
            size = float(expected.norm())
            errors = [float((x[what] - expected).norm()) for x in (own, ours)]
            most = 2 * errors[0] + 1e-3 * size + 1e-6 * largest  # some gradients are 0
            self.assertLessEqual(errors[1], most, (name, padding, what, errors, size))

    def test_models_without_padding(self):
        """Logits and gradients of all parameters after unpad(), whose attention sees one sequence."""
        for name in ("Llama", "GPT2", "Bert", "Gemma2"):
            models = self.models(name)
            fa_tutorial.transformers.unpad(models[2]).train()
            shapes = []
            original = fa_tutorial.transformers.attention_varlen

            def seen(query, *args, original=original, shapes=shapes, **options):
                shapes.append(query.shape[0])
                return original(query, *args, **options)

            for padding in ("left", "right"):
                with mock.patch.object(fa_tutorial.transformers, "attention_varlen", seen):
                    right, own, ours = (self.results(model, padding) for model in models)
                self.is_close(name, padding, right, own, ours)
            self.assertEqual(set(shapes), {30 + 11 + 21}, name)
            with torch.no_grad():
                tokens, mask, _ = self.batch("left")
                models[2].eval()
                of_padding = models[2].base_model(tokens, attention_mask=mask, **self.no_cache(name))[0]
            self.assertEqual(int(of_padding[mask == 0].count_nonzero()), 0)

    @staticmethod
    def no_cache(name: str) -> dict:
        return {} if name == "Bert" else {"use_cache": False}

    def test_generation_after_unpad(self):
        """It fills a cache: nothing changes."""
        model = self.models("Llama")[2]
        tokens, mask, _ = self.batch("left")
        given = {"attention_mask": mask, "max_new_tokens": 3, "do_sample": False}
        expected = model.generate(tokens, **given)
        self.assertTrue(
            torch.equal(fa_tutorial.transformers.unpad(model).generate(tokens, **given), expected)
        )

    def test_unpad_refuses(self):
        config = transformers.RobertaConfig(**MODELS["Bert"])
        with self.assertRaisesRegex(NotImplementedError, "RobertaModel computes positions"):
            fa_tutorial.transformers.unpad(transformers.RobertaModel(config))

    def generates(self, name: str, steps: int = 5, **options):
        """Greedy tokens, of a batch with padding on the left, are those of the reference."""
        tokens, mask, _ = self.batch("left")
        found = []
        for model in self.models(name)[::2]:
            with torch.no_grad():
                given = {"attention_mask": mask, "do_sample": False, "min_new_tokens": steps}
                found.append(model.generate(tokens, max_new_tokens=steps, **given, **options))
        self.assertEqual(found[0].tolist(), found[1].tolist(), name)

    def test_llama(self):
        self.compare("Llama")
        with mock.patch.object(fa_tutorial.transformers, "decode", wraps=fa_tutorial.decode) as ran:
            self.generates("Llama")
        self.assertTrue(ran.called)

    def test_qwen3(self):
        self.compare("Qwen3")
        self.generates("Qwen3")

    def test_gemma(self):
        self.compare("Gemma2")
        self.generates("Gemma2")

    def test_gpt_oss(self):
        self.compare("GptOss")
        self.generates("GptOss")

    def test_gpt2(self):
        self.compare("GPT2")
        self.generates("GPT2")

    def test_bert(self):
        self.compare("Bert")

    def test_static_cache(self):
        for name in ("Llama", "Gemma2"):
            self.generates(name, cache_implementation="static", disable_compile=True)

    def test_packed_sequences(self):
        """Positions that begin again, without a mask: sequences do not see each other."""
        tokens, _, _ = self.batch(None)
        tokens = tokens[:1]
        positions = torch.cat((torch.arange(13), torch.arange(17)))[None].to(self.device)
        with torch.no_grad():
            right, own, ours = (
                model(tokens, position_ids=positions, use_cache=False).logits.float()
                for model in self.models("Llama")
            )
            apart = self.models("Llama")[2](tokens[:, 13:]).logits.float()
        limit = 2 * float((own - right).norm()) + 1e-3 * float(right.norm())
        self.assertLessEqual(float((ours - right).norm()), limit)
        self.assertLessEqual(float((ours[:, 13:] - apart).norm()), limit)

    def test_refusals(self):
        model = self.models("Llama")[2]
        tokens, _, _ = self.batch(None)
        mask = torch.ones(3, 1, 30, 30, dtype=torch.bool, device=self.device)
        with self.assertRaisesRegex(NotImplementedError, "attention_mask has 4 dimensions"):
            model(tokens, attention_mask=mask)


if __name__ == "__main__":
    unittest.main()
