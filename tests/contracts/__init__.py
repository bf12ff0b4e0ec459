"""What the real forges say about requests and answers, from their OpenAPI documents."""

from tests.contracts.contract import Contracts, OpenApiContract, github_contract, gitlab_contract

__all__ = ["Contracts", "OpenApiContract", "github_contract", "gitlab_contract"]
