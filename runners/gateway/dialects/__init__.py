"""How model families are shown tools and how they write calls: one module a family, chosen by name."""
