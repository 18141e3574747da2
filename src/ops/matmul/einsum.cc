// einsum: operands are contracted from left to right, each pair by one product.
#include <algorithm>
#include <map>

#include "ops/forms.h"
#include "ops/ops.h"

namespace liveshape::ops {
namespace {

using Labels = std::vector<int64_t>;  // a letter; under `...`, the k-th dim from the right is -k

bool Has(const Labels& labels, int64_t label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A tensor whose dims have names.
struct Term {
  ValueId value;
  Labels labels;
};

std::vector<std::string_view> Split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t comma; (comma = text.find(',')) != text.npos; text.remove_prefix(comma + 1))
    parts.push_back(text.substr(0, comma));
  parts.push_back(text);
  return parts;
}

class Einsum {
 public:
  explicit Einsum(AtenCall& c) : c_(c) {
    std::string equation = c.StringOr("equation", "");
    const std::vector<ValueId> tensors = c.Tensors("tensors");
    c.Ignore({"path"});  // only an order of products
    std::erase(equation, ' ');
    const size_t arrow = equation.find("->");
    const auto parts = Split(std::string_view(equation).substr(0, arrow));
    if (parts.size() != tensors.size())
      c.Fail(InvalidArgument("`{}` has {} operands, {} are given", equation, parts.size(),
                             tensors.size()));
    int64_t most = 0;
    for (size_t i = 0; c.ok() && i < parts.size(); ++i) {
      const bool dots = parts[i].find("...") != std::string_view::npos;
      const int64_t letters = static_cast<int64_t>(parts[i].size()) - (dots ? 3 : 0);
      const int64_t others = c.Rank(tensors[i]) - letters;
      if (others < 0 || (others > 0 && !dots))
        c.Fail(InvalidArgument("`{}` of a tensor of rank {}", parts[i], c.Rank(tensors[i])));
      most = std::max(most, others);
      terms_.push_back({tensors[i], Read(parts[i], others)});
    }
    out_ = arrow == equation.npos ? Implied(most)
                                  : Read(std::string_view(equation).substr(arrow + 2), most);
    for (int64_t label : out_)
      if (!UsedFrom(0, label))
        c.Fail(InvalidArgument("`{}`: a label of the result is of no operand", equation));
  }

  ValueId Run() {
    std::map<int64_t, Expr> sizes;  // of each label; where it is 1, an operand is repeated
    for (const Term& t : terms_)
      for (size_t i = 0; c_.ok() && i < t.labels.size(); ++i) {
        const Expr own = c_.DimsOf(t.value)[i];
        const auto [at, is_new] = sizes.emplace(t.labels[i], own);
        if (!is_new) at->second = c_.Broadcast({at->second}, {own})[0];
      }
    if (!c_.ok()) return ir::kNoValue;
    for (Term& t : terms_) {
      Dims dims;
      for (int64_t label : t.labels) dims.push_back(sizes[label]);
      t.value = c_.Expand(t.value, dims);
    }
    Term done = terms_[0];
    for (size_t i = 1; i < terms_.size(); ++i) done = Product(done, terms_[i], i + 1);
    return Arrange(Sum(done, terms_.size(), {}), out_);
  }

 private:
  Labels Read(std::string_view text, int64_t dots) {
    Labels labels;
    while (!text.empty() && c_.ok()) {
      if (text.starts_with("...")) {
        for (int64_t k = dots; k > 0; --k) labels.push_back(-k);
        text.remove_prefix(3);
        continue;
      }
      const char letter = text[0];
      if (!(letter >= 'a' && letter <= 'z') && !(letter >= 'A' && letter <= 'Z'))
        c_.Fail(InvalidArgument("`{}` is no label", text));
      if (Has(labels, letter)) c_.Fail(Unsupported("`{}` twice in an operand or result", letter));
      labels.push_back(letter);
      text.remove_prefix(1);
    }
    return labels;
  }

  // Without "->": what `...` stands for, then the letters that occur once, in order.
  Labels Implied(int64_t dots) const {
    Labels labels;
    for (int64_t k = dots; k > 0; --k) labels.push_back(-k);
    std::map<int64_t, int> count;
    for (const Term& t : terms_)
      for (int64_t label : t.labels) ++count[label];
    for (const auto& [label, times] : count)
      if (label > 0 && times == 1) labels.push_back(label);
    return labels;
  }

  bool UsedFrom(size_t term, int64_t label) const {
    return std::any_of(terms_.begin() + static_cast<std::ptrdiff_t>(term), terms_.end(),
                       [&](const Term& t) { return Has(t.labels, label); });
  }

  // The labels of `t` that nobody asks for again are summed: not the result, not `other`, no term from `next` on.
  Term Sum(Term t, size_t next, const Labels& other) {
    std::vector<int64_t> dims;
    Labels rest;
    for (size_t i = 0; i < t.labels.size(); ++i) {
      const int64_t label = t.labels[i];
      if (Has(out_, label) || Has(other, label) || UsedFrom(next, label))
        rest.push_back(label);
      else
        dims.push_back(static_cast<int64_t>(i));
    }
    if (dims.empty() || !c_.ok()) return t;
    const DType dtype = c_.TypeOf(t.value);
    const ValueId sum =
        c_.Emit(kReduce, {t.value},
                {{"kind", std::string("sum")}, {"dims", std::move(dims)}, {"keepdim", int64_t{0}}});
    return {c_.Cast(sum, dtype), std::move(rest)};
  }

  ValueId Arrange(const Term& t, const Labels& order) {
    std::vector<int64_t> perm;
    for (int64_t label : order)
      perm.push_back(std::find(t.labels.begin(), t.labels.end(), label) - t.labels.begin());
    return c_.ok() ? c_.Permute(t.value, std::move(perm)) : t.value;
  }

  Term Product(Term a, Term b, size_t next) {
    a = Sum(std::move(a), next, b.labels);
    b = Sum(std::move(b), next, a.labels);
    Labels batch, rows, columns, summed;
    for (int64_t label : a.labels) {
      const bool kept = Has(out_, label) || UsedFrom(next, label);
      (!Has(b.labels, label) ? rows : kept ? batch : summed).push_back(label);
    }
    for (int64_t label : b.labels)
      if (!Has(a.labels, label)) columns.push_back(label);
    const auto joined = [](std::initializer_list<const Labels*> parts) {
      Labels all;
      for (const Labels* part : parts) all.insert(all.end(), part->begin(), part->end());
      return all;
    };
    Term y{ir::kNoValue, joined({&batch, &rows, &columns})};
    a.value = Arrange(a, joined({&batch, &rows, &summed}));
    b.value = Arrange(b, joined({&batch, &columns, &summed}));
    if (!c_.ok()) return y;
    const Dims da = c_.DimsOf(a.value), db = c_.DimsOf(b.value);
    const size_t batches = batch.size(), left = batches + rows.size(),
                 right = batches + columns.size();
    const auto part = [](const Dims& dims, size_t begin, size_t end) {
      return Dims(dims.begin() + static_cast<std::ptrdiff_t>(begin),
                  dims.begin() + static_cast<std::ptrdiff_t>(end));
    };
    const auto merged = [&](const Dims& dims, size_t begin, size_t end) {
      return sym::Product(c_.table(), part(dims, begin, end));
    };
    const Dims outer = part(da, 0, batches);
    Dims result = part(da, 0, left);
    for (Expr d : part(db, batches, right)) result.push_back(d);
    // As matrices [batch..., rows, summed] and [batch..., columns, summed].
    Dims as_a = outer, as_b = outer;
    for (Expr d : {merged(da, batches, left), merged(da, left, da.size())}) as_a.push_back(d);
    for (Expr d : {merged(db, batches, right), merged(db, right, db.size())}) as_b.push_back(d);
    a.value = c_.Reshape(a.value, std::move(as_a));
    b.value = c_.Reshape(b.value, std::move(as_b));
    const auto last = static_cast<int64_t>(batches);
    if (summed.empty())  // [rows, 1] times [1, columns]
      y.value = c_.Binary(PwOp::kMul, c_.Of(a.value), c_.Of(c_.Transpose(b.value, last, last + 1)));
    else if (batch.empty())
      y.value = c_.Emit(kLinear, {a.value, b.value});
    else
      y.value = c_.Emit(kMatmul, {a.value, c_.Transpose(b.value, last, last + 1)});
    y.value = c_.Reshape(y.value, std::move(result));
    return y;
  }

  AtenCall& c_;
  std::vector<Term> terms_;
  Labels out_;
};

std::vector<ValueId> Build(AtenCall& c) {
  Einsum einsum(c);
  if (!c.ok()) return {ir::kNoValue};
  return {einsum.Run()};
}

const AtenForm kForms[] = {{"aten.einsum.default", Build}};

}  // namespace

LS_DEFINE_FORMS(Einsum, kForms)

}  // namespace liveshape::ops
